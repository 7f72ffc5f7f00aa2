"""Read files again when they change, so that keys and certificates are replaced without a restart."""

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from agenteval_collector.runtime.clock import Clock

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at the files."""

T = TypeVar("T")


class Watched(Generic[T]):
    """The value that is read from files. `read` is called at first, and again when one of `files` has changed.

    If a later `read` raises OSError or ValueError, the value before stays, and the reason is logged once.
    """

    def __init__(self, files: Sequence[Path], read: Callable[[], T], clock: Clock) -> None:
        """Raises what `read` raises."""
        self._files = files
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp = self._look()
        self._value = read()
        self._next_look = clock.monotonic() + LOOK_SECONDS

    def get(self) -> T:
        """Return the value, read again at most `LOOK_SECONDS` after a change. From any thread."""
        with self._lock:
            if self._files and self._clock.monotonic() >= self._next_look:
                self._next_look = self._clock.monotonic() + LOOK_SECONDS
                if (stamp := self._look()) != self._stamp:
                    self._stamp = stamp
                    self._read_again()
            return self._value

    def _read_again(self) -> None:
        named = ", ".join(map(str, self._files))
        try:
            self._value = self._read()
        except (OSError, ValueError) as error:
            logger.error("%s changed and cannot be used; what was read before stays: %s", named, error)
        else:
            logger.info("%s changed and was read again", named)

    def _look(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(file) for file in self._files]


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None  # `read` says why.
    return status.st_mtime_ns, status.st_size, status.st_ino
