"""Measure how long it takes after a fault until traces are scored again."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from tests.faults.beside import running

EVERY = 0.5
"""Seconds between two looks at the store: times are this exact."""


@dataclass
class Recovery:
    """The seconds after a fault until another trace was scored, and until all were that had been acknowledged."""

    fault: str
    next_score: float | None = None
    caught_up: float | None = None
    _begun: float = field(default_factory=time.monotonic, repr=False)
    _before: frozenset[str] = field(default=frozenset(), repr=False)
    _wanted: frozenset[str] = field(default=frozenset(), repr=False)

    def see(self, scored: frozenset[str]) -> None:
        """Take note of what is scored now."""
        passed = round(time.monotonic() - self._begun, 1)
        if self.next_score is None and scored - self._before:
            self.next_score = passed
        if self.caught_up is None and self._wanted <= scored:
            self.caught_up = passed


class Recoveries:
    """Looks at the store again and again, by `scored`, which may raise OSError while it is away."""

    def __init__(self, scored: Callable[[], frozenset[str]]) -> None:
        self.all: list[Recovery] = []
        self._scored = scored
        self._seen: frozenset[str] = frozenset()
        self._done = threading.Event()

    def begin(self, fault: str, acknowledged: Sequence[str]) -> None:
        """A fault strikes now."""
        self.all.append(Recovery(fault, _before=self._seen, _wanted=frozenset(acknowledged)))

    def running(self) -> AbstractContextManager[None]:
        """Run beside a block."""
        return running(self._look, self._done)

    def _look(self) -> None:
        while not self._done.wait(EVERY):
            try:
                self._seen = self._scored()
            except OSError:
                continue
            for recovery in list(self.all):
                recovery.see(self._seen)


def percentiles(recoveries: Sequence[Recovery]) -> dict[str, dict[str, float]]:
    """Return by fault the median and the worst time of both."""
    found: dict[str, dict[str, float]] = {}
    for fault in sorted({each.fault for each in recoveries}):
        of_fault = [each for each in recoveries if each.fault == fault]
        found[fault] = {"times": len(of_fault)}
        for name in ("next_score", "caught_up"):
            times = sorted(time for each in of_fault if (time := getattr(each, name)) is not None)
            if times:
                found[fault] |= {f"{name}_median": times[len(times) // 2], f"{name}_worst": times[-1]}
    return found
