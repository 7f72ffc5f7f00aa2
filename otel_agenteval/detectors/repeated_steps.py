"""Counters of repeated steps. They take the same memory, and the same time for a step, after a million steps as after
ten."""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from otel_agenteval.detectors.steps import Step
from otel_agenteval.model import Json

MAX_PERIOD: Final = 6
"""Calls in the longest cycle that is found."""

NEAR: Final = 8
"""Steps of the same kind that may lie between two failures of one tool, or between two checks by one call."""

MAX_EVIDENCE: Final = 10
"""Spans of a repetition that are remembered: the newest."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Row:
    """Counts how often the same step was done in a row. Equal steps that overlap in time, or that one reply asks for,
    count once."""

    count: int = 0
    span_ids: list[str] = field(default_factory=list)
    _key: Hashable | None = None
    _ended_at: int | None = None
    _asked_by: str | None = None
    _pauses: int = 0

    def clear(self) -> None:
        """Begin anew, because something else was done."""
        self._key = None
        self.count = 0

    def is_of(self, key: Hashable) -> bool:
        """Return whether `key` is the step that is repeated."""
        return self.count > 0 and key == self._key

    def add(self, key: Hashable, step: Step, pauses: int = 0) -> int:
        """Count a step, which `key` stands for, and return how often it was done in a row. Another key begins anew.

        `pauses` is the number of pauses of the agent so far. Returns 0 where the previous one was not over when
        `step` was asked for or began.
        """
        if not self.count or key != self._key:
            self._key, self._pauses = key, pauses
            self.count, self.span_ids = 1, [step.span_id]
        elif step.follows(self._ended_at, self._asked_by):
            self.count += 1
            self.span_ids = [*self.span_ids, step.span_id][-MAX_EVIDENCE:]
        else:
            return 0
        self._ended_at, self._asked_by = step.ended_at, step.asked_by
        return self.count

    def waited(self, pauses: int) -> bool:
        """Return whether the agent paused before every repetition. `pauses` is the number of its pauses so far."""
        return pauses - self._pauses >= self.count - 1


class Attempts:
    """Counts different attempts in a row that have the same outcome."""

    __slots__ = ("_limit", "row", "tried")

    def __init__(self, limit: int) -> None:
        """Start without attempts. More than `limit` attempts are not told apart."""
        self._limit = limit
        # A list, not a set: a hash would decode the arguments, and most of them never need to be decoded.
        self.tried: list[tuple[str, Hashable]] = []
        """The tool of each attempt, and its arguments."""
        self.row = Row()

    def add(self, outcome: Hashable | None, way: Hashable, step: Step) -> int:
        """Count an attempt, and return how many there were in a row. An outcome of None equals no other.

        Returns 0 where this attempt was made before, or does not follow the one before it.
        """
        if outcome is None:
            self.row.clear()
        elif not self.row.is_of(outcome):
            self.tried.clear()
        if outcome is None or (step.name, way) in self.tried or not self.row.add(outcome, step):
            return 0
        if len(self.tried) < self._limit:
            self.tried.append((step.name, way))
        return self.row.count


class _Lately(Generic[T]):
    """Keeps the values of the last steps, by key."""

    __slots__ = ("_kept", "step")

    def __init__(self) -> None:
        self.step = 0
        self._kept: dict[Hashable, tuple[int, T]] = {}

    def take(self, key: Hashable) -> tuple[int, T] | None:
        """Begin the next step. Remove and return the number and the value of the step with this `key`, if at most
        `NEAR` steps lie between."""
        self.step += 1
        kept = self._kept.pop(key, None)
        return kept if kept is not None and self.step - kept[0] <= NEAR + 1 else None

    def keep(self, key: Hashable, value: T) -> None:
        """Keep `value` for this step."""
        self._kept[key] = self.step, value
        if len(self._kept) > NEAR + 1:
            del self._kept[next(iter(self._kept))]


class StepFailure(NamedTuple):
    """The failure of a step. `kind` is equal where only numbers and ids differ, `exact` where only times do."""

    kind: Hashable
    exact: Hashable


@dataclass(slots=True)
class Storm:
    """Failures of one tool in a row: their count, and the newest one."""

    arguments: Hashable | None
    failure: StepFailure
    row: Row = field(default_factory=Row)
    between: bool = False
    """True where the same call failed again after something else had succeeded."""


class Failures:
    """Counts the failures of each tool in a row, with no success of the tool and few other steps between them.

    Each failure has the arguments or the error of the one before it. An agent that fails in another way has learned
    something, so a new row begins. The same holds for a call that is repeated after something else has succeeded: only
    the exact same failure continues the row.
    """

    __slots__ = ("_lately", "_succeeded_at")

    def __init__(self) -> None:
        self._succeeded_at = 0
        self._lately: _Lately[Storm] = _Lately()

    def add(self, arguments: Hashable | None, failure: StepFailure | None, step: Step, pauses: int) -> Storm | None:
        """Count a step, which succeeded if `failure` is None. Return the failures in a row that it adds to, if any."""
        last = self._lately.take(step.name)
        if failure is None:
            # A tool without a result, such as one to think with, has changed nothing that could make others succeed.
            self._succeeded_at = self._lately.step if step.result else self._succeeded_at
            return None
        now = Storm(arguments, failure)
        if last is not None:
            at, before = last
            is_same_call = arguments is not None and arguments == before.arguments
            between = is_same_call and self._succeeded_at > at
            is_alike = failure.kind == before.failure.kind or is_same_call
            if failure.exact == before.failure.exact if between else is_alike:
                now.row, now.between = before.row, before.between or between
        self._lately.keep(step.name, now)
        return now if now.row.add(step.name, step, pauses) else None


class Checks:
    """Counts how often the same call had the same outcome, each time after other calls, which so changed nothing."""

    __slots__ = ("_lately",)

    def __init__(self) -> None:
        self._lately: _Lately[Row] = _Lately()

    def add(self, call: Hashable | None, outcome: Hashable | None, step: Step) -> Row | None:
        """Count a call with its outcome; None stands for one that is not known. Return the row that it adds to, if
        any."""
        last = self._lately.take(call)
        if call is None or outcome is None:
            return None
        at, row = last or (0, Row())
        is_after_others = self._lately.step - at > 1 or not row.is_of(outcome)
        self._lately.keep(call, row)
        return row if is_after_others and row.add(outcome, step) else None


class Cycle(NamedTuple):
    """The calls of a cycle, in the order of the newest round."""

    names: tuple[str, ...]
    span_ids: tuple[str, ...]
    doubt: str | None
    """The reason why one of them may rightly be made again. None where there is none."""

    def evidence(self, named: str, rounds: int) -> dict[str, Json]:
        """Return the metadata of a loop of so many `rounds`. `named` says what the names are: "tools" or "agents"."""
        return {named: [*self.names], "repetitions": rounds, "span_ids": [*self.span_ids]}


class Cycles:
    """Finds sequences of 2 to MAX_PERIOD different calls that are made over and over."""

    __slots__ = ("_calls", "_keys", "_runs")

    def __init__(self) -> None:
        self._keys: deque[Hashable] = deque(maxlen=MAX_PERIOD)
        # The name, span id, end, asking model call and doubt of each call.
        self._calls: deque[tuple[str, str, int | None, str | None, str | None]] = deque(maxlen=MAX_PERIOD)
        # At index p: how many of the last calls, without a gap, equal the call that was made p calls before them.
        self._runs = [0] * (MAX_PERIOD + 1)

    def add(
        self, key: Hashable | None, name: str, first: Step, last: Step, times: int, doubt: str | None
    ) -> Cycle | None:
        """Count a call that began with the step `first` and ended with `last`. Return the cycle of which it completes
        the `times`-th round, if any.

        A key of None equals nothing. `doubt` says why the call may rightly be made again.
        """
        if key is None:
            self.clear()
            return None
        period = 0
        if key in self._keys:
            period = self._period(key, first, times)
        elif any(self._runs):
            self._runs = [0] * (MAX_PERIOD + 1)
        self._keys.append(key)
        self._calls.append((name, last.span_id, last.ended_at, last.asked_by, doubt))
        if not period or not _is_primitive([*self._keys][-period:]):
            return None
        names, span_ids, _, _, doubts = zip(*[*self._calls][-period:], strict=True)
        return Cycle(names, span_ids, next(filter(None, doubts), None))

    def clear(self) -> None:
        """Begin anew."""
        if self._keys:
            self._keys.clear()
            self._calls.clear()

    def _period(self, key: Hashable, first: Step, times: int) -> int:
        """Return the shortest period of which a call with this key completes the `times`-th round, 0 if there is
        none."""
        found = 0
        for period in range(2, len(self._keys) + 1):
            is_over = first.follows(*self._calls[-period][2:4])
            self._runs[period] = self._runs[period] + 1 if is_over and key == self._keys[-period] else 0
            if not found and self._runs[period] == period * (times - 1):
                found = period
        return found


def _is_primitive(keys: list[Hashable]) -> bool:
    """Return whether `keys` is not itself a repetition of a shorter sequence."""
    return all(keys != keys[shift:] + keys[:shift] for shift in range(1, len(keys)))
