"""Counting what is done again. Memory and time are the same after a million steps as after ten."""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from otel_agenteval.detectors.steps import Step

MAX_PERIOD: Final = 6
"""Calls in the longest cycle that is found."""

NEAR: Final = 8
"""Steps of the same kind that may lie between two failures of one tool in a row."""

MAX_EVIDENCE: Final = 10
"""Spans that are remembered of a repetition, the newest."""


class Row:
    """The same again and again: how often, each time after the time before was over.

    Equal steps that overlap are one time: whoever began them did not repeat, but do it at once.
    """

    __slots__ = ("_ended_at", "_key", "count", "span_ids")

    def __init__(self) -> None:
        self._key: Hashable | None = None
        self._ended_at: int | None = None
        self.count = 0
        self.span_ids: deque[str] = deque(maxlen=MAX_EVIDENCE)

    def is_of(self, key: Hashable) -> bool:
        """Whether `key` is what is repeated."""
        return self.count > 0 and key == self._key

    def add(self, key: Hashable, step: Step) -> bool:
        """Note that `step` did what `key` stands for; another key begins anew. False: it overlaps the time before."""
        if not self.is_of(key):
            self.clear()
            self._key = key
        elif not step.follows(self._ended_at):
            return False
        self.count += 1
        self._ended_at = step.ended_at
        self.span_ids.append(step.span_id)
        return True

    def clear(self) -> None:
        """Begin anew: something else was done."""
        self._key = None
        self.count = 0
        self.span_ids.clear()


class Attempts:
    """Ways tried in a row, all different, that came to the same."""

    __slots__ = ("_limit", "_tried", "row")

    def __init__(self, limit: int) -> None:
        """More than `limit` attempts need not be told apart."""
        self._limit = limit
        self._tried: set[Hashable] = set()
        self.row = Row()

    def add(self, outcome: Hashable, way: Hashable, step: Step) -> bool:
        """Note a way tried; False where it was tried before, or overlaps the attempt before."""
        if not self.row.is_of(outcome):
            self._tried.clear()
        if way in self._tried or not self.row.add(outcome, step):
            return False
        if len(self._tried) < self._limit:
            self._tried.add(way)
        return True

    def clear(self) -> None:
        """Begin anew."""
        self._tried.clear()
        self.row.clear()


class Failures:
    """Failures of each tool in a row: without a success of the same tool, and with few other steps between them."""

    __slots__ = ("_rows", "_step")

    def __init__(self) -> None:
        self._step = 0
        self._rows: dict[str, tuple[int, Row]] = {}

    def add(self, step: Step) -> Row | None:
        """Note a step; the row of failures that it makes longer, if any."""
        self._step += 1
        # The tool that failed longest ago stands first.
        while self._rows and self._step - next(iter(self._rows.values()))[0] > NEAR + 1:
            del self._rows[next(iter(self._rows))]
        _, row = self._rows.pop(step.name, (0, Row()))
        if step.error is None:
            return None
        self._rows[step.name] = self._step, row
        return row if row.add(step.name, step) else None


@dataclass(frozen=True, slots=True)
class Cycle:
    """`period` calls that were made `times` times over; the newest of them last."""

    period: int
    times: int
    names: tuple[str, ...]
    span_ids: tuple[str, ...]


class Cycles:
    """Sequences of 2 to MAX_PERIOD different calls, made over and over."""

    __slots__ = ("_calls", "_runs")

    def __init__(self) -> None:
        self._calls: deque[tuple[Hashable | None, Step]] = deque(maxlen=MAX_PERIOD)
        # By period: how many calls up to the last one are the same as that many calls before.
        self._runs = [0] * (MAX_PERIOD + 1)

    def add(self, key: Hashable | None, step: Step, times: int) -> Cycle | None:
        """Note a call; the cycle whose `times`-th round it completes, if any. None as key is equal to nothing."""
        for period in range(2, len(self._calls) + 1):
            other, earlier = self._calls[-period]
            again = key is not None and key == other and step.follows(earlier.ended_at)
            self._runs[period] = self._runs[period] + 1 if again else 0
        self._calls.append((key, step))
        for period in range(2, MAX_PERIOD + 1):
            if self._runs[period] == period * (times - 1) and self._is_primitive(period):
                steps = [call for _, call in list(self._calls)[-period:]]
                return Cycle(period, times, tuple(s.name for s in steps), tuple(s.span_id for s in steps))
        return None

    def _is_primitive(self, period: int) -> bool:
        """Whether the last `period` calls are no shorter sequence over and over."""
        keys = [key for key, _ in self._calls][-period:]
        return all(keys != keys[shift:] + keys[:shift] for shift in range(1, period))
