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

MAX_CHECKS: Final = 8
"""Failing calls that are remembered until they are made again."""

MAX_EVIDENCE: Final = 10
"""Spans that are remembered of a repetition, the newest."""


class Row:
    """The same again and again: how often, each time after the time before was over.

    Equal steps that overlap are one time: whoever began them did not repeat, but do it at once. `pauses` counts how
    often the agent has waited so far.
    """

    __slots__ = ("_ended_at", "_key", "_pauses", "count", "span_ids")

    def __init__(self) -> None:
        self._key: Hashable | None = None
        self._ended_at: int | None = None
        self._pauses = 0
        self.count = 0
        self.span_ids: list[str] = []

    def is_of(self, key: Hashable) -> bool:
        """Whether `key` is what is repeated."""
        return self.count > 0 and key == self._key

    def add(self, key: Hashable, step: Step, pauses: int = 0) -> bool:
        """Note that `step` did what `key` stands for; another key begins anew. False: it overlaps the time before."""
        if self.count and key == self._key:
            return self._add_again(step)
        self.begin(key, step.span_id, step.ended_at, pauses)
        return True

    def begin(self, key: Hashable, span_id: str, ended_at: int | None, pauses: int = 0) -> None:
        """Begin anew with what was done in the span of this id."""
        self._key, self._ended_at, self._pauses = key, ended_at, pauses
        self.count, self.span_ids = 1, [span_id]

    def _add_again(self, step: Step) -> bool:
        if not step.follows(self._ended_at):
            return False
        self.count += 1
        self._ended_at = step.ended_at
        self.span_ids = [*self.span_ids, step.span_id][-MAX_EVIDENCE:]
        return True

    def waited(self, pauses: int) -> bool:
        """Whether the agent has waited before every repetition."""
        return pauses - self._pauses >= self.count - 1

    def clear(self) -> None:
        """Begin anew: something else was done."""
        self._key = None
        self.count = 0
        self.span_ids = []


class Attempts:
    """Ways tried in a row, all different, that came to the same."""

    __slots__ = ("_limit", "_tried", "row")

    def __init__(self, limit: int) -> None:
        """More than `limit` attempts need not be told apart."""
        self._limit = limit
        # No set: most ways need never be read, and their hashes would read them.
        self._tried: list[tuple[str, Hashable]] = []
        self.row = Row()

    def add(self, outcome: Hashable, way: Hashable, step: Step) -> bool:
        """Note a way tried; False where it was tried before, or overlaps the attempt before."""
        if not self.row.is_of(outcome):
            self._tried.clear()
        if (step.name, way) in self._tried or not self.row.add(outcome, step):
            return False
        if len(self._tried) < self._limit:
            self._tried.append((step.name, way))
        return True

    def tools(self) -> list[str]:
        """The tool of each attempt, oldest first."""
        return [tool for tool, _ in self._tried]

    def clear(self) -> None:
        """Begin anew."""
        self._tried.clear()
        self.row.clear()


@dataclass(slots=True)
class _Failing:
    """How a tool failed last, and how often in a row."""

    at: int
    arguments: Hashable | None
    failure: "Failure"
    row: Row
    between: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """How a step failed: `kind` is equal whatever numbers stand in it, `exact` where nothing but times differs."""

    kind: Hashable
    exact: Hashable


@dataclass(frozen=True, slots=True)
class Storm:
    """Failures of one tool in a row. `between`: the same call failed again after something else had succeeded."""

    row: Row
    between: bool


class Failures:
    """Failures of each tool in a row: no success of the same tool, and few other steps, lie between them.

    Each has the arguments or the error of the one before: who fails in another way with other arguments has learned
    something, and begins a new row. So has who makes the same call again after something else has succeeded, and fails
    in another way.
    """

    __slots__ = ("_failing", "_steps", "_succeeded_at")

    def __init__(self) -> None:
        self._steps = 0
        self._succeeded_at = 0
        # The tool that failed longest ago stands first.
        self._failing: dict[str, _Failing] = {}

    def add(self, arguments: Hashable | None, failure: Failure | None, step: Step, pauses: int) -> Storm | None:
        """Note a step, a success where `failure` is None; the row of failures that it makes longer, if any."""
        self._steps += 1
        while self._failing and self._steps - next(iter(self._failing.values())).at > NEAR + 1:
            del self._failing[next(iter(self._failing))]
        last = self._failing.pop(step.name, None)
        if failure is None:
            # Who gave nothing back, as a tool to think with, has changed nothing.
            self._succeeded_at = self._steps if step.result else self._succeeded_at
            return None
        now = _Failing(self._steps, arguments, failure, Row())
        if last is not None:
            is_same_call = arguments is not None and arguments == last.arguments
            between = is_same_call and self._succeeded_at > last.at
            is_alike = failure.kind == last.failure.kind or is_same_call
            if failure.exact == last.failure.exact if between else is_alike:
                now.row, now.between = last.row, last.between or between
        self._failing[step.name] = now
        return Storm(now.row, now.between) if now.row.add(step.name, step, pauses) else None


class Checks:
    """The same call that fails in the same way again, each time with other calls in between: they changed nothing."""

    __slots__ = ("_calls", "_made")

    def __init__(self) -> None:
        self._calls = 0
        # By call, the one made longest ago first: when, in which span and with what outcome it was made the only time,
        # or when last, and how often in a row it has failed in the same way.
        self._made: dict[int | None, tuple[int, str, int | None, int] | tuple[int, Row]] = {}

    def is_first(self, call: int | None, outcome: int, step: Step) -> bool:
        """Whether a call was not made before, or not for long; then it is noted.

        `call` and `outcome` are equal for the same ones; `call` is None where that is not known.
        """
        self._calls += 1
        if call in self._made:
            return False
        if call is not None:
            self._made[call] = (self._calls, step.span_id, step.ended_at, outcome)
            if len(self._made) > MAX_CHECKS:
                del self._made[next(iter(self._made))]
        return True

    def again(self, call: int | None, outcome: int, step: Step, failure: Hashable | None) -> Row | None:
        """Note a call that was made before; the row of failing checks that it makes longer, if any.

        `failure` is equal for the same failure, None where the call is well.
        """
        made = self._made.pop(call)
        if failure is None:
            self._made[call] = (self._calls, step.span_id, step.ended_at, outcome)
            return None
        row = made[1] if len(made) == 2 else Row()
        if len(made) == 4 and made[3] == outcome:
            row.begin(failure, made[1], made[2])
        is_after_others = self._calls - made[0] > 1 or not row.is_of(failure)
        self._made[call] = (self._calls, row)
        return row if is_after_others and row.add(failure, step) else None


@dataclass(frozen=True, slots=True)
class Cycle:
    """Calls that were made over and over, in the order of the newest round."""

    names: tuple[str, ...]
    span_ids: tuple[str, ...]
    doubts: tuple[str, ...]


_Call = tuple[str, str, int | None, str | None]
"""The name of a call, its span, when it ended, and why it may rightly be made again."""


class Cycles:
    """Sequences of 2 to MAX_PERIOD different calls, made over and over."""

    __slots__ = ("_calls", "_keys", "_runs")

    def __init__(self) -> None:
        self._keys: deque[Hashable] = deque(maxlen=MAX_PERIOD)
        self._calls: deque[_Call] = deque(maxlen=MAX_PERIOD)
        # By period: how many calls up to the last one are the same as that many calls before.
        self._runs = [0] * (MAX_PERIOD + 1)

    def add(
        self,
        key: Hashable | None,
        step: Step,
        times: int,
        doubt: str | None,
        *,
        name: str | None = None,
        started_at: int | None = None,
    ) -> Cycle | None:
        """Note a call; the cycle whose `times`-th round it completes, if any. None as key is equal to nothing.

        `doubt` says why this call may rightly be made again. `name` and `started_at` stand for those of `step` where
        it is only the last one of several.
        """
        found = 0
        if key is None:
            self.clear()
            return None
        if key in self._keys:
            found = self._again(key, step.started_at if started_at is None else started_at, times)
        elif any(self._runs):
            self._runs = [0] * (MAX_PERIOD + 1)
        self._keys.append(key)
        self._calls.append((name or step.name, step.span_id, step.ended_at, doubt))
        return self._cycle(found) if found else None

    def clear(self) -> None:
        """Begin anew."""
        if self._keys:
            self._keys.clear()
            self._calls.clear()
            self._runs = [0] * (MAX_PERIOD + 1)

    def _again(self, key: Hashable, began: int | None, times: int) -> int:
        """The shortest period whose `times`-th round a call with this key completes; 0: none."""
        found = 0
        for period in range(2, len(self._keys) + 1):
            ended_at = self._calls[-period][2]
            is_over = ended_at is None or began is None or began >= ended_at
            self._runs[period] = self._runs[period] + 1 if is_over and key == self._keys[-period] else 0
            if not found and self._runs[period] == period * (times - 1):
                found = period
        return found

    def _cycle(self, period: int) -> Cycle | None:
        if not _is_primitive(list(self._keys)[-period:]):
            return None
        names, span_ids, _, doubts = zip(*list(self._calls)[-period:], strict=True)
        return Cycle(names, span_ids, tuple(doubt for doubt in doubts if doubt is not None))


def _is_primitive(keys: list[Hashable]) -> bool:
    """Whether `keys` is no shorter sequence over and over."""
    return all(keys != keys[shift:] + keys[:shift] for shift in range(1, len(keys)))
