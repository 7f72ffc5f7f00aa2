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
        # No set: most ways need never be read, and their hashes would read them.
        self._tried: list[Hashable] = []
        self.row = Row()

    def add(self, outcome: Hashable, way: Hashable, step: Step) -> bool:
        """Note a way tried; False where it was tried before, or overlaps the attempt before."""
        if not self.row.is_of(outcome):
            self._tried.clear()
        if way in self._tried or not self.row.add(outcome, step):
            return False
        if len(self._tried) < self._limit:
            self._tried.append(way)
        return True

    def clear(self) -> None:
        """Begin anew."""
        self._tried.clear()
        self.row.clear()


@dataclass(slots=True)
class _Failing:
    """How a tool failed last, and how often in a row."""

    at: int
    arguments: Hashable | None
    error: Hashable
    row: Row


class Failures:
    """Failures of each tool in a row: no success of the same tool, and few other steps, lie between them.

    Each has the arguments or the error of the one before: who fails in another way with other arguments has learned
    something, and begins a new row.
    """

    __slots__ = ("_failing", "_steps")

    def __init__(self) -> None:
        self._steps = 0
        # The tool that failed longest ago stands first.
        self._failing: dict[str, _Failing] = {}

    def add(self, arguments: Hashable | None, error: Hashable | None, step: Step) -> Row | None:
        """Note a step, a success where `error` is None; the row of failures that it makes longer, if any."""
        self._steps += 1
        while self._failing and self._steps - next(iter(self._failing.values())).at > NEAR + 1:
            del self._failing[next(iter(self._failing))]
        last = self._failing.pop(step.name, None)
        if error is None:
            return None
        row = Row()
        if last and (error == last.error or (arguments is not None and arguments == last.arguments)):
            row = last.row
        self._failing[step.name] = _Failing(self._steps, arguments, error, row)
        return row if row.add(step.name, step) else None


@dataclass(frozen=True, slots=True)
class Cycle:
    """Calls that were made over and over, in the order of the newest round."""

    names: tuple[str, ...]
    span_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    key: Hashable | None
    name: str
    span_id: str
    ended_at: int | None


class Cycles:
    """Sequences of 2 to MAX_PERIOD different calls, made over and over."""

    __slots__ = ("_calls", "_runs")

    def __init__(self) -> None:
        self._calls: deque[_Call] = deque(maxlen=MAX_PERIOD)
        # By period: how many calls up to the last one are the same as that many calls before.
        self._runs = [0] * (MAX_PERIOD + 1)

    def add(self, key: Hashable | None, step: Step, times: int) -> Cycle | None:
        """Note a call; the cycle whose `times`-th round it completes, if any. None as key is equal to nothing."""
        for period in range(2, len(self._calls) + 1):
            earlier = self._calls[-period]
            again = key is not None and key == earlier.key and step.follows(earlier.ended_at)
            self._runs[period] = self._runs[period] + 1 if again else 0
        self._calls.append(_Call(key, step.name, step.span_id, step.ended_at))
        for period in range(2, MAX_PERIOD + 1):
            if self._runs[period] == period * (times - 1):
                calls = list(self._calls)[-period:]
                if _is_primitive([call.key for call in calls]):
                    return Cycle(tuple(call.name for call in calls), tuple(call.span_id for call in calls))
        return None


def _is_primitive(keys: list[Hashable | None]) -> bool:
    """Whether `keys` is no shorter sequence over and over."""
    return all(keys != keys[shift:] + keys[:shift] for shift in range(1, len(keys)))
