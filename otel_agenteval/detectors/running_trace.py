"""The detectors of one running trace."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from otel_agenteval.detectors.circles import Circles
from otel_agenteval.detectors.content import MAX_NAME, printable
from otel_agenteval.detectors.loop import loop
from otel_agenteval.detectors.open_spans import OpenSpans
from otel_agenteval.detectors.rules import Kind, RuleBook
from otel_agenteval.detectors.runs import Runs
from otel_agenteval.detectors.spending import NANOSECONDS, Spending
from otel_agenteval.detectors.steps import Step, StepKind, StepStarted
from otel_agenteval.detectors.tool_names import only_hands_over
from otel_agenteval.finding import Finding, Mode
from otel_agenteval.lru import Recent
from otel_agenteval.model import Json

MAX_AGENTS: Final = 64
"""Agents of a trace whose spending is remembered. The one that did nothing for longest is forgotten."""


class Detectors:
    """Finds the loops of one trace while it runs, each run of its agents on its own. Pure: time comes with the events.
    What an event costs, and what is remembered, does not grow with the trace. Not for several threads."""

    def __init__(self, session_id: str, trace_id: str, rules: RuleBook) -> None:
        """Begin a trace. Findings carry these ids; a trace without a session is its own session."""
        self._session_id = session_id
        self._trace_id = trace_id
        self._rules = rules
        self._runs = Runs(rules)
        self._has_budgets = any(each.budget.mode is not Mode.OFF for each in (rules.default, *rules.agents.values()))
        self._spending: Recent[str | None, Spending] = Recent(MAX_AGENTS)
        self._open = OpenSpans()
        self._circles = Circles(rules)

    def observe(self, event: StepStarted | Step) -> list[Finding]:
        """Return the loops that `event` completes. Spans have to be given in the order in which they ended."""
        names = event.name if event.agent is None else event.name + event.agent
        if len(names) > MAX_NAME or not names.isprintable():
            event = replace(event, name=printable(event.name), agent=event.agent and printable(event.agent))
        if isinstance(event, StepStarted):
            self._open.start(event)
            return []
        self._open.end(event.span_id, event.ended_at)
        if event.kind is StepKind.OTHER:
            return []
        found = [self._circles.observe(event)]
        if event.kind is StepKind.MODEL or not only_hands_over(event.name, event.arguments):
            found += self._runs.of(event).observe(event)
            if self._has_budgets:
                budget = self._rules.of(event.agent).budget
                found += self._spending.get_or_make(event.agent, lambda: Spending(budget)).observe(event)
        return self._found(event.agent, found) if any(found) else []

    def hear(self, span_id: str, at: int) -> None:
        """Note that something began inside a span, which therefore did not hang at that time."""
        self._open.hear(span_id, at)

    def tick(self, now: int) -> list[Finding]:
        """Return the loops that show by nothing happening until `now`: hung spans, and time that has run out."""
        found = []
        for span, silence in list(self._open.silent(now)):
            rule = self._rules.of(span.agent).hung_span
            if rule.mode is Mode.OFF or silence < rule.after * NANOSECONDS:
                continue
            self._open.told(span.span_id)
            seconds = silence / NANOSECONDS
            reason = f"{span.name} has been open for {seconds:.0f} s without anything going on"
            evidence: dict[str, Json] = {span.kind.value: span.name, "silent_seconds": seconds}
            found += self._found(span.agent, [loop(Kind.HUNG_SPAN, rule.mode, span.span_id, reason, evidence)])
        for agent, spending in self._spending.items():
            found += self._found(agent, spending.tick(now))
        return found

    def _found(self, agent: str | None, loops: Iterable[Finding | None]) -> list[Finding]:
        """Return those that are loops, with the agent of each."""
        return [
            replace(each, trace_id=self._trace_id, session_id=self._session_id, agent=agent) for each in loops if each
        ]
