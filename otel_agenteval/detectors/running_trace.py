"""The detectors of one running trace: they find repetitions, spans that hang, and budgets that are exceeded."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from otel_agenteval.detectors.agent_runs import AgentRuns
from otel_agenteval.detectors.circles import Circles
from otel_agenteval.detectors.fingerprints import MAX_NAME, printable
from otel_agenteval.detectors.rules import BudgetRule, LoopKind, RuleBook, loop
from otel_agenteval.detectors.steps import Step, StepKind, StepStarted
from otel_agenteval.detectors.tool_names import only_hands_over
from otel_agenteval.finding import Finding, Mode
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import Json

MAX_OPEN: Final = 1024
"""Open spans of a trace that are watched. Spans that begin while there are so many are not."""

_MAX_DEPTH: Final = 32
"""Spans that are looked at from one span outwards. Those further out do not hear what happens in it."""


@dataclass(slots=True)
class _OpenSpan:
    span: StepStarted
    heard_at: int
    told: bool = False


class SilenceTracker:
    """Tracks how long the open spans of a trace are silent. A span is silent while nothing begins or ends inside it."""

    def __init__(self) -> None:
        self._open: dict[str, _OpenSpan] = {}

    def start(self, span: StepStarted) -> None:
        """Note that a span began."""
        self.hear(span.parent_id, span.at)
        if len(self._open) < MAX_OPEN:
            self._open[span.span_id] = _OpenSpan(span, span.at)

    def end(self, span_id: str, at: int | None) -> None:
        """Note that a span ended. A span whose start was not seen is ignored."""
        ended = self._open.pop(span_id, None)
        if ended is not None and at is not None:
            self.hear(ended.span.parent_id, at)

    def silent(self, now: int) -> Iterator[tuple[StepStarted, int]]:
        """Yield each open call with the nanoseconds of its silence.

        Leave out calls that `told` has marked, and calls that have another open call inside.
        """
        calls = [step for step in self._open.values() if step.span.kind is not StepKind.OTHER]
        waiting = {around.span.span_id for call in calls for around in self._around(call.span.parent_id)}
        for call in calls:
            if not call.told and call.span.span_id not in waiting:
                yield call.span, now - call.heard_at

    def told(self, span_id: str) -> None:
        """Mark a span, so that it is not yielded again."""
        self._open[span_id].told = True

    def hear(self, span_id: str | None, at: int) -> None:
        """Note that something began or ended inside a span at `at`. A span that is not open is ignored."""
        if span_id not in self._open:
            return
        for around in self._around(span_id):
            around.heard_at = max(around.heard_at, at)

    def _around(self, span_id: str | None) -> Iterator[_OpenSpan]:
        """Yield the open span of this id and those around it, from the inside out."""
        for _ in range(_MAX_DEPTH):
            around = self._open.get(span_id or "")
            if around is None:
                return
            yield around
            span_id = around.span.parent_id


NANOSECONDS: Final = 1_000_000_000


class BudgetTracker:
    """Tracks the budget of one agent, and reports each bound once, when it is exceeded."""

    def __init__(self, budget: BudgetRule) -> None:
        self._budget = budget
        self._spent = {"steps": 0, "tokens": 0}
        self._over: set[str] = set()
        self._started_at: int | None = None
        self._last_span_id = ""

    def observe(self, step: Step) -> Iterator[Finding | None]:
        """Yield the bounds that `step` exceeds."""
        if self._started_at is None:
            self._started_at = step.started_at
        self._last_span_id = step.span_id
        self._spent["steps"] += 1
        self._spent["tokens"] += step.tokens
        for unit, spent in self._spent.items():
            yield from self._exceeds(unit, spent)
        if step.ended_at is not None:
            yield from self.tick(step.ended_at)

    def tick(self, now: int) -> Iterator[Finding | None]:
        """Yield the bound of time, if it has run out at `now`."""
        if self._started_at is not None:
            yield from self._exceeds("seconds", (now - self._started_at) / NANOSECONDS)

    def _exceeds(self, unit: str, spent: float) -> Iterator[Finding | None]:
        bound: float | None = getattr(self._budget, unit)
        if bound is None or spent <= bound or unit in self._over:
            return
        self._over.add(unit)
        reason = f"the agent has used {spent:g} {unit}, more than the {bound:g} of its budget"
        evidence: dict[str, Json] = {"unit": unit, "spent": spent, "budget": bound}
        yield loop(LoopKind.BUDGET, self._budget.mode, self._last_span_id, reason, evidence)


MAX_AGENTS: Final = 64
"""Agents of a trace whose budgets are tracked. The one that did nothing for longest is forgotten."""


class Detectors:
    """Finds the loops of one trace while it runs, in each agent run by itself. Pure: time comes with the events.

    The cost of an event, and the memory, do not grow with the trace. For one thread at a time.
    """

    def __init__(self, session_id: str, trace_id: str, rules: RuleBook) -> None:
        """Begin a trace. Findings carry these ids. A trace without a session is its own session."""
        self._session_id = session_id
        self._trace_id = trace_id
        self._rules = rules
        self._runs = AgentRuns(rules)
        self._has_budgets = rules.has_budgets
        self._spending: LruMap[str | None, BudgetTracker] = LruMap(MAX_AGENTS)
        self._open = SilenceTracker()
        self._circles = Circles(rules)

    def observe(self, event: StepStarted | Step) -> list[Finding]:
        """Return the loops that `event` completes. Give spans in the order in which they ended."""
        names = event.name if event.agent is None else event.name + event.agent
        if len(names) > MAX_NAME or not names.isprintable():
            event = replace(event, name=printable(event.name), agent=event.agent and printable(event.agent))
        if isinstance(event, StepStarted):
            self._open.start(event)
            return []
        self._open.end(event.span_id, event.ended_at)
        if event.kind is StepKind.OTHER:
            return []
        loops = [self._circles.observe(event)]
        if event.kind is StepKind.MODEL or not only_hands_over(event.name, event.arguments):
            loops += self._runs.of(event).observe(event)
            if self._has_budgets:
                budget = self._rules.of(event.agent).budget
                loops += self._spending.get_or_make(event.agent, lambda: BudgetTracker(budget)).observe(event)
        return self._found(event.agent, loops) if any(loops) else []

    def hear(self, span_id: str, at: int) -> None:
        """Note that something began inside a span, so that it did not hang at that time."""
        self._open.hear(span_id, at)

    def tick(self, now: int) -> list[Finding]:
        """Return the loops that show because nothing happened until `now`: hung spans, and time that has run out."""
        loops = []
        for span, silence in list(self._open.silent(now)):
            rule = self._rules.of(span.agent).hung_span
            if rule.mode is Mode.OFF or silence < rule.after * NANOSECONDS:
                continue
            self._open.told(span.span_id)
            seconds = silence / NANOSECONDS
            reason = f"{span.name} has been open for {seconds:.0f} s without anything going on"
            evidence: dict[str, Json] = {span.kind.value: span.name, "silent_seconds": seconds}
            loops += self._found(span.agent, [loop(LoopKind.HUNG_SPAN, rule.mode, span.span_id, reason, evidence)])
        for agent, spending in self._spending.items():
            loops += self._found(agent, spending.tick(now))
        return loops

    def _found(self, agent: str | None, loops: Iterable[Finding | None]) -> list[Finding]:
        """Return the loops among `loops`, with their trace, session and agent."""
        return [
            replace(loop, trace_id=self._trace_id, session_id=self._session_id, agent=agent) for loop in loops if loop
        ]
