"""Warnings at most once a minute of a kind: what goes wrong in an agent goes wrong for every span."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

INTERVAL: Final = 60.0


class ThrottledLog:
    """Logs warnings by kind; what it held back is counted into the next one. Belongs to one thread.

    `monotonic` gives seconds; kinds are few fixed words.
    """

    def __init__(self, logger: logging.Logger, monotonic: Callable[[], float]) -> None:
        self._logger = logger
        self._monotonic = monotonic
        self._next: dict[str, float] = {}
        self._held_back: Counter[str] = Counter()

    def warning(self, kind: str, message: str, *args: Any, exc_info: BaseException | None = None) -> None:
        """Log unless this kind was logged within the last minute."""
        now = self._monotonic()
        if now < self._next.get(kind, now):
            self._held_back[kind] += 1
            return
        self._next[kind] = now + INTERVAL
        if held_back := self._held_back.pop(kind, 0):
            message, args = f"{message} (%d more like this since)", (*args, held_back)
        self._logger.warning(message, *args, exc_info=exc_info)


class LossLog:
    """Logs how much was lost: every loss is in exactly one line. Belongs to one thread.

    A kind is the wording of its lines, with one `%d` for the sum since its last line; kinds are few. `monotonic`
    gives seconds.
    """

    def __init__(self, logger: logging.Logger, monotonic: Callable[[], float]) -> None:
        self._logger = logger
        self._monotonic = monotonic
        self._next: dict[str, float] = {}
        self._unlogged: Counter[str] = Counter()
        self._problems: dict[str, str] = {}

    def add(self, kind: str, count: int, problem: str) -> None:
        """Note a loss for the next line of its kind; of several, the line names the problem of the first."""
        self._unlogged[kind] += count
        self._problems.setdefault(kind, problem)

    def log_due(self) -> None:
        """Log what was noted, but for kinds that were logged within the last minute."""
        if self._unlogged:
            now = self._monotonic()
            self._log([kind for kind in self._unlogged if now >= self._next.get(kind, now)])

    def log_rest(self) -> None:
        """Log all that was noted, whenever its kind was logged: nothing comes after it."""
        self._log(list(self._unlogged))

    def _log(self, kinds: list[str]) -> None:
        for kind in kinds:
            self._next[kind] = self._monotonic() + INTERVAL
            self._logger.warning(f"{kind}: %s", self._unlogged.pop(kind), self._problems.pop(kind))
