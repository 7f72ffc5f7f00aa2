"""Counters of repeated steps. They take the same memory, and the same time for a step, after a million steps as after
ten."""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from otel_agenteval.detectors.likeness import Result
from otel_agenteval.detectors.steps import Step, StepKind
from otel_agenteval.finding import Mode
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import Json

MAX_PERIOD: Final = 12
"""Different calls in the longest cycle that is found."""

NEAR: Final = 8
"""Tool calls that may lie between two failures of one tool."""

MAX_DOINGS: Final = 16
"""Different calls of an agent run whose newest results are remembered."""

MAX_EVIDENCE: Final = 10
"""Spans of a repetition that are remembered: the newest."""

_MAX_RESULTS: Final = 6
"""Results of the same call that are kept, to see whether a number in them moves on."""

BACKOFF: Final = 5_000_000_000
"""Nanoseconds between two steps from which they may be a backoff. A model takes less to ask again at once."""
BACKOFF_GROWTH: Final = 1.5
"""How many times longer than the one before each pause of a backoff is."""

PATIENCE: Final = 15_000_000_000
"""Nanoseconds without any step that count as a pause, as between two looks at something slow."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Row(Generic[T]):
    """Counts how often the same was done in a row. Steps that overlap in time, or that one reply asks for, count
    once."""

    of: T | None = None
    count: int = 0
    span_ids: list[str] = field(default_factory=list)
    pauses: int = 0
    """The number of pauses of the agent before the row began."""
    _ended_at: int | None = None
    _asked_by: str | None = None
    _gap: int = 0
    _grows: bool = True

    def begin(self, of: T, step: Step, pauses: int = 0) -> None:
        """Begin anew with a step."""
        self.of, self.pauses = of, pauses
        self.count, self.span_ids = 1, [step.span_id]
        self._ended_at, self._asked_by = step.ended_at, step.asked_by
        self._gap, self._grows = 0, True

    def go_on(self, step: Step) -> bool:
        """Count a step. Return False if the previous one was not over when `step` was asked for or began."""
        if not step.follows(self._ended_at, self._asked_by):
            return False
        if self._grows and self._ended_at is not None and step.started_at is not None:
            gap = step.started_at - self._ended_at
            self._grows, self._gap = gap >= BACKOFF_GROWTH * self._gap, gap
        self.count += 1
        self.span_ids = [*self.span_ids, step.span_id][-MAX_EVIDENCE:]
        self._ended_at, self._asked_by = step.ended_at, step.asked_by
        return True

    @property
    def backs_off(self) -> bool:
        """True if each repetition began after a far longer time than the one before, as in a backoff."""
        return self._grows and self.count > 2 and self._gap >= BACKOFF

    def waited(self, pauses: int) -> bool:
        """Return whether the agent paused before every repetition. `pauses` is the number of its pauses so far."""
        return pauses - self.pauses >= self.count - 1


class Doing(NamedTuple):
    """The same call, with the same arguments: how often it has told the same, and the newest results."""

    row: Row[None]
    results: deque[Result | None]
    news: int
    """What was new before it."""
    stale: int
    """The calls before it that brought nothing new."""
    earlier: deque[Result]
    """What it told before, the newest last."""

    @classmethod
    def begun(
        cls, step: Step, result: Result | None, pauses: int, news: int, stale: int, before: "Doing | None"
    ) -> "Doing":
        """Return a doing that was done once, or that has told something else than `before`."""
        earlier = deque[Result](maxlen=2) if before is None else before.earlier
        if before is not None and before.results[-1] is not None:
            earlier.append(before.results[-1])
        doing = cls(Row(), deque([result], maxlen=_MAX_RESULTS), news, stale, earlier)
        doing.row.begin(None, step, pauses)
        return doing


@dataclass(slots=True, eq=False)
class Streak:
    """Counts the calls since the newest one that brought something. All of them were made before, and told the same.

    A call that was never made before, but brings nothing by itself, is passed over: `acted` says that there was one
    that may have had an effect, `mused` that there was one without a result.
    """

    newest: Hashable = None
    """The call that brought something."""
    pauses: int = 0
    acted: bool = False
    mused: bool = False
    passed: set[Hashable] = field(default_factory=set)
    """Calls that were passed over, and not made again since."""
    came_back: bool = False
    """True if all calls that may have had an effect were made again: they belong to the repetition."""
    told: Mode | None = None
    """What was told of it."""
    times: dict[Hashable, int] = field(default_factory=dict)
    names: dict[Hashable, tuple[str, str]] = field(default_factory=dict)
    """The name and the newest span of each call."""

    def begin(self, newest: Hashable, pauses: int = 0) -> None:
        """Begin anew, because a call brought something."""
        self.newest, self.pauses, self.told = newest, pauses, None
        self.acted = self.mused = self.came_back = False
        if self.passed:
            self.passed = set()
        if self.times:
            self.times, self.names = {}, {}

    def add(self, key: Hashable, name: str, span_id: str) -> None:
        """Count a call that brought nothing new."""
        if self.passed:
            self._come_back(key)
        if len(self.times) >= MAX_PERIOD and key not in self.times:
            self.begin(key)
            return
        self.times[key] = self.times.get(key, 0) + 1
        self.names.pop(key, None)
        self.names[key] = name, span_id

    def pass_over(self, key: Hashable) -> None:
        """Note a call that was never made before, but brings nothing by itself."""
        # With more of them than a cycle has, one stays, so that they are not taken for parts of it.
        if len(self.passed) <= MAX_PERIOD:
            self.passed.add(key)
        self.came_back = False

    def _come_back(self, key: Hashable) -> None:
        if not self.times and self.passed == {key}:
            self.begin(key, self.pauses)
        elif key in self.passed:
            self.passed.discard(key)
            # The first time counts, as everywhere.
            self.times[key] = 1
            if not self.passed:
                self.came_back = self.acted
                self.acted = self.mused = False

    @property
    def rounds(self) -> int:
        """How often each of the calls was made."""
        return min(self.times.values(), default=0) + (self.newest in self.times)

    def waited(self, pauses: int) -> bool:
        """Return whether the agent paused in every round. `pauses` is the number of its pauses so far."""
        return pauses - self.pauses >= self.rounds - 1

    def evidence(self, named: str) -> dict[str, Json]:
        """Return the metadata of a loop. `named` says what the names are: "tools" or "agents"."""
        names = [name for name, _ in self.names.values()]
        span_ids: list[Json] = [span_id for _, span_id in self.names.values()]
        return {named: [*names], "repetitions": self.rounds, "span_ids": span_ids}


@dataclass(slots=True, eq=False)
class Attempts:
    """Different attempts in a row that came to the same."""

    limit: int
    row: Row[Hashable] = field(default_factory=Row)
    tried: dict[Hashable, tuple[str, str]] = field(default_factory=dict)
    """The tool and the arguments of each."""
    result: Result | None = None
    began_at: int = 0
    """The number of the step with which the row began."""
    told: Mode | None = None
    """What was told of them."""

    def clear(self) -> None:
        """Begin anew, because something came of a call."""
        self.row.of, self.row.count, self.told = None, 0, None
        self.tried.clear()

    def add(self, outcome: Hashable, key: Hashable, attempt: tuple[str, str], step: Step, at: int) -> bool:
        """Count an attempt. Return False if it was made before, or does not follow the one before it."""
        if outcome != self.row.of or not self.row.count:
            self.clear()
            self.row.begin(outcome, step)
            self.began_at = at
        elif key in self.tried or not self.row.go_on(step):
            return False
        if len(self.tried) < self.limit:
            self.tried[key] = attempt
        return True


class Error(NamedTuple):
    """An error. `kind` is equal if only numbers and ids differ, `exact` if only times do."""

    kind: Hashable
    exact: Hashable


@dataclass(slots=True, eq=False)
class Storm:
    """Failures of one tool in a row. `between`: something else had an effect before the same call failed again."""

    key: Hashable
    error: Error
    at: int
    began_at: int
    row: Row[None] = field(default_factory=Row)
    tried: list[str] = field(default_factory=list)
    """The arguments of the calls."""
    names_items: bool = True
    """True if each error names an argument of its call."""
    between: bool = False
    looked: bool = False
    """True if something was looked up in between."""
    is_alone: bool = True
    """True if no other tool was called in between."""
    told: Mode | None = None
    """What was told of it."""


class Failures:
    """Counts the failures of each tool in a row, with no success of the tool and few other calls between them.

    Each failure has the arguments or the error of the one before it. An agent that fails in another way has learned
    something, so a new row begins. The same holds for a call that fails again after something else had an effect: only
    the same error continues its row, which then is `between`.
    """

    __slots__ = ("_effect_at", "_look_at", "_step", "_storms")

    def __init__(self) -> None:
        self._step = 0
        self._effect_at = self._look_at = 0
        self._storms: LruMap[Hashable, Storm] = LruMap(NEAR + 1)

    def end(self, key: Hashable, step: Step, *, had_effect: bool, has_looked: bool = False) -> None:
        """Count a call that worked, and so ends the row of its tool, and that of the same check. It may have changed
        something, or only looked."""
        self._step += 1
        for name_or_key in (step.name, key):
            if name_or_key in self._storms:
                self._storms.pop(name_or_key)
        if had_effect:
            self._effect_at = self._step
        if has_looked:
            self._look_at = self._step

    def add(
        self, key: Hashable, error: Error, step: Step, pauses: int, at: int = 0, *, is_verdict: bool = False
    ) -> Storm | None:
        """Count a failure of the call that `key` stands for, the `at`-th one of the agent run. Return the failures
        that it adds to. A verdict, such as that of a test, adds only to the same verdict on the same call."""
        self._step += 1
        row_of = key if is_verdict else step.name
        storm = self._storms.get(row_of)
        if storm is not None and self._step - storm.at <= NEAR + 1:
            is_same_call = key is not None and key == storm.key
            between = is_same_call and self._effect_at > storm.at
            is_alike = error.kind == storm.error.kind or is_same_call
            # Without arguments, nobody knows whether numbers and ids in an error are those that were asked for.
            if between or storm.between or is_verdict or (key is None and step.kind is StepKind.TOOL):
                is_alike = error.exact == storm.error.exact
            if is_alike:
                storm.looked = storm.looked or self._look_at > storm.at
                storm.is_alone = storm.is_alone and self._step - storm.at == 1
                storm.between = storm.between or between
                storm.key, storm.error, storm.at = key, error, self._step
                return storm if storm.row.go_on(step) else None
        storm = Storm(key, error, self._step, at)
        storm.row.begin(None, step, pauses)
        self._storms.put(row_of, storm)
        return storm
