"""Warnings at most once a minute of a kind: what goes wrong in an agent goes wrong for every span."""

import logging
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
        self._held_back: dict[str, int] = {}

    def warning(self, kind: str, message: str, *args: Any, exc_info: BaseException | None = None) -> bool:
        """Log unless this kind was logged within the last minute; whether it was logged."""
        now = self._monotonic()
        if now < self._next.get(kind, now):
            self._held_back[kind] = self._held_back.get(kind, 0) + 1
            return False
        self._next[kind] = now + INTERVAL
        if held_back := self._held_back.pop(kind, 0):
            message, args = f"{message} (%d more like this since)", (*args, held_back)
        self._logger.warning(message, *args, exc_info=exc_info)
        return True
