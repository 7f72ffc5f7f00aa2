"""Counters of repetition. Memory and time are the same after a million steps as after ten."""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from otel_agenteval.detectors.steps import Step
from otel_agenteval.model import Json

MAX_PERIOD: Final = 6
"""Calls in the longest cycle that is found."""

NEAR: Final = 8
"""Steps of the same kind that may lie between two failures of one tool, or of one call."""

MAX_EVIDENCE: Final = 10
"""Spans that are remembered of a repetition, the newest."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Row:
    """The same step again and again, each time after the time before was over: equal ones that overlap are one time."""

    count: int = 0
    span_ids: list[str] = field(default_factory=list)
    _key: Hashable | None = None
    _ended_at: int | None = None
    _pauses: int = 0

    def clear(self) -> None:
        """Begin anew, because something else was done."""
        self._key = None
        self.count = 0

    def is_of(self, key: Hashable) -> bool:
        """Return whether `key` is the step that is repeated."""
        return self.count > 0 and key == self._key

    def add(self, key: Hashable, step: Step, pauses: int = 0) -> int:
        """Note that `step` did what `key` stands for, after so many `pauses` of the agent; another key begins anew.
        Returns how often it was done; 0 where `step` overlaps the time before."""
        if not self.count or key != self._key:
            self._key, self._pauses = key, pauses
            self.count, self.span_ids = 1, [step.span_id]
        elif step.follows(self._ended_at):
            self.count += 1
            self.span_ids = [*self.span_ids, step.span_id][-MAX_EVIDENCE:]
        else:
            return 0
        self._ended_at = step.ended_at
        return self.count

    def waited(self, pauses: int) -> bool:
        """Return whether the agent has waited before every repetition."""
        return pauses - self._pauses >= self.count - 1


class Attempts:
    """Different attempts in a row with the same outcome."""

    __slots__ = ("_limit", "row", "tried")

    def __init__(self, limit: int) -> None:
        """Start without attempts. More than `limit` attempts are not told apart."""
        self._limit = limit
        # No set: most ways need never be read, and their hashes would read them.
        self.tried: list[tuple[str, Hashable]] = []
        """The tool of each attempt, and the way in which it was used."""
        self.row = Row()

    def add(self, outcome: Hashable | None, way: Hashable, step: Step) -> int:
        """Note an attempt. None as outcome equals no other. Returns how many were tried; 0 where this one was tried
        before, or overlaps the attempt before."""
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
    """Values of the last steps, by key."""

    __slots__ = ("_kept", "step")

    def __init__(self) -> None:
        self.step = 0
        self._kept: dict[Hashable, tuple[int, T]] = {}

    def take(self, key: Hashable) -> tuple[int, T] | None:
        """Go one step on. Returns the value under `key` and its step's number, if at most `NEAR` steps lie between."""
        self.step += 1
        kept = self._kept.pop(key, None)
        return kept if kept is not None and self.step - kept[0] <= NEAR + 1 else None

    def keep(self, key: Hashable, value: T) -> None:
        """Keep `value` for this step."""
        self._kept[key] = self.step, value
        if len(self._kept) > NEAR + 1:
            del self._kept[next(iter(self._kept))]


class StepFailure(NamedTuple):
    """The failure of a step. `kind` is equal whatever numbers stand in it, `exact` where nothing but times differs."""

    kind: Hashable
    exact: Hashable


@dataclass(slots=True)
class Storm:
    """Failures of one tool in a row, and the last one of them."""

    arguments: Hashable | None
    failure: StepFailure
    row: Row = field(default_factory=Row)
    between: bool = False
    """True where the same call failed again after something else had succeeded."""


class Failures:
    """Failures of each tool in a row: no success of the same tool, and few other steps, lie between them.

    Each has the arguments or the error of the one before: who fails in another way has learned something, and begins a
    new row; so has who repeats a call after something else has succeeded, and fails in another way.
    """

    __slots__ = ("_lately", "_succeeded_at")

    def __init__(self) -> None:
        self._succeeded_at = 0
        self._lately: _Lately[Storm] = _Lately()

    def add(self, arguments: Hashable | None, failure: StepFailure | None, step: Step, pauses: int) -> Storm | None:
        """Note a step, a success where `failure` is None. Returns the row of failures that it makes longer, if any."""
        last = self._lately.take(step.name)
        if failure is None:
            # Who gave nothing back, as a tool to think with, has changed nothing.
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
    """The same call that ends in the same way again, each time after other calls, which changed nothing."""

    __slots__ = ("_lately",)

    def __init__(self) -> None:
        self._lately: _Lately[Row] = _Lately()

    def add(self, call: Hashable | None, outcome: Hashable | None, step: Step) -> Row | None:
        """Note a call and its outcome, None where either is not known. Returns the row that it makes longer, if any."""
        last = self._lately.take(call)
        if call is None or outcome is None:
            return None
        at, row = last or (0, Row())
        is_after_others = self._lately.step - at > 1 or not row.is_of(outcome)
        self._lately.keep(call, row)
        return row if is_after_others and row.add(outcome, step) else None


class Cycle(NamedTuple):
    """Calls that were made over and over, in the order of the newest round."""

    names: tuple[str, ...]
    span_ids: tuple[str, ...]
    doubt: str | None
    """The reason why one of them may rightly be made again."""

    def evidence(self, whose: str, rounds: int) -> dict[str, Json]:
        """Return the metadata of a loop of so many rounds. `whose` says what the names are: "tools" or "agents"."""
        return {whose: [*self.names], "repetitions": rounds, "span_ids": [*self.span_ids]}


class Cycles:
    """Finds sequences of 2 to MAX_PERIOD different calls that are made over and over."""

    __slots__ = ("_calls", "_keys", "_runs")

    def __init__(self) -> None:
        self._keys: deque[Hashable] = deque(maxlen=MAX_PERIOD)
        # The name of each call, its span, when it ended, and why it may rightly be made again.
        self._calls: deque[tuple[str, str, int | None, str | None]] = deque(maxlen=MAX_PERIOD)
        # By period: how many calls up to the last one are the same as that many calls before.
        self._runs = [0] * (MAX_PERIOD + 1)

    def add(
        self, key: Hashable | None, name: str, began: int | None, last: Step, times: int, doubt: str | None
    ) -> Cycle | None:
        """Note a call of this name that began then and ended with the step `last`. A key of None equals nothing.
        Returns the cycle whose `times`-th round it completes, if any. `doubt` says why it may rightly be made again."""
        if key is None:
            self.clear()
            return None
        period = 0
        if key in self._keys:
            period = self._period(key, began, times)
        elif any(self._runs):
            self._runs = [0] * (MAX_PERIOD + 1)
        self._keys.append(key)
        self._calls.append((name, last.span_id, last.ended_at, doubt))
        if not period or not _is_primitive([*self._keys][-period:]):
            return None
        names, span_ids, _, doubts = zip(*[*self._calls][-period:], strict=True)
        return Cycle(names, span_ids, next(filter(None, doubts), None))

    def clear(self) -> None:
        """Begin anew."""
        if self._keys:
            self._keys.clear()
            self._calls.clear()

    def _period(self, key: Hashable, began: int | None, times: int) -> int:
        """Return the shortest period whose `times`-th round a call with this key completes. 0: none."""
        found = 0
        for period in range(2, len(self._keys) + 1):
            ended_at = self._calls[-period][2]
            is_over = ended_at is None or began is None or began >= ended_at
            self._runs[period] = self._runs[period] + 1 if is_over and key == self._keys[-period] else 0
            if not found and self._runs[period] == period * (times - 1):
                found = period
        return found


def _is_primitive(keys: list[Hashable]) -> bool:
    """Return whether `keys` is not itself a shorter sequence over and over."""
    return all(keys != keys[shift:] + keys[:shift] for shift in range(1, len(keys)))
