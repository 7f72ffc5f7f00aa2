"""A log that warns at most once a minute of each kind of trouble. Trouble in an agent mostly comes with every span."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

INTERVAL: Final = 60.0
"""Seconds from one line of a kind to the next."""


class ThrottledLog:
    """Logs warnings and losses by kind, of which there are few. For one thread. `monotonic` gives seconds.

    A warning says how many like it were held back before. Each loss is counted in exactly one line.
    """

    def __init__(self, logger: logging.Logger, monotonic: Callable[[], float]) -> None:
        self._logger = logger
        self._monotonic = monotonic
        self._next: dict[str, float] = {}
        self._held_back: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._problems: dict[str, str] = {}

    def warning(self, kind: str, message: str, *args: Any, exc_info: BaseException | None = None) -> None:
        """Log a warning, unless one of this kind was logged within the last minute."""
        if not self._is_due(kind):
            self._held_back[kind] += 1
            return
        self._next[kind] = self._monotonic() + INTERVAL
        if held_back := self._held_back.pop(kind, 0):
            message, args = f"{message} (%d more like this since)", (*args, held_back)
        self._logger.warning(message, *args, exc_info=exc_info)

    def lose(self, kind: str, count: int, problem: str) -> None:
        """Note a loss for the next line of its kind.

        `kind` is the wording of that line, with one `%d` for the sum of losses since the last line. The line also names
        the `problem` of the first of them.
        """
        self._lost[kind] += count
        self._problems.setdefault(kind, problem)

    def log_losses(self) -> None:
        """Log the losses that were noted, except kinds that were logged within the last minute."""
        self._log(kind for kind in [*self._lost] if self._is_due(kind))

    def log_rest(self) -> None:
        """Log all losses that were noted. For the end of the process, when no later line can hold them."""
        self._log([*self._lost])

    def _is_due(self, kind: str) -> bool:
        now = self._monotonic()
        return now >= self._next.get(kind, now)

    def _log(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            self._next[kind] = self._monotonic() + INTERVAL
            self._logger.warning(f"{kind}: %s", self._lost.pop(kind), self._problems.pop(kind))
