"""The detectors of one running trace."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from otel_agenteval.detectors.agent import NANOSECONDS, AgentDetectors, Loop
from otel_agenteval.detectors.content import printable
from otel_agenteval.detectors.open_spans import OpenSpans
from otel_agenteval.detectors.rules import Kind, Mode, RuleBook
from otel_agenteval.detectors.steps import Step, StepKind, StepStarted
from otel_agenteval.detectors.verdict import EVALUATOR, Verdict
from otel_agenteval.model import Json

MAX_AGENTS: Final = 64
"""Agents of a trace that are remembered; the one that did nothing for longest is forgotten."""


class Detectors:
    """Finds the loops of one trace while it runs; each of its agents is looked at on its own.

    Pure: time comes with the events, and nothing is waited for. What an event costs, and what is remembered, depends
    on the event and on constants, never on how long the trace is. Not for several threads at once.
    """

    def __init__(self, session_id: str, trace_id: str, rules: RuleBook) -> None:
        """The ids are those that verdicts carry; a trace without a session is its own."""
        self._session_id = session_id
        self._trace_id = trace_id
        self._rules = rules
        self._agents: OrderedDict[str | None, AgentDetectors] = OrderedDict()
        self._open = OpenSpans()
        self.forgotten = 0
        """Agents that were forgotten."""

    @property
    def unwatched(self) -> int:
        """Spans that would not be found hanging, because too many were open when they began."""
        return self._open.unwatched

    def observe(self, event: StepStarted | Step) -> list[Verdict]:
        """What is wrong since `event`; spans are to be given in the order in which they ended."""
        agent = event.agent and printable(event.agent)
        if (name := printable(event.name)) != event.name or agent != event.agent:
            event = replace(event, name=name, agent=agent)
        if isinstance(event, StepStarted):
            self._open.start(event)
            return []
        self._open.end(event.span_id, event.ended_at)
        if event.kind is StepKind.OTHER:
            return []
        return self._verdicts(event.agent, self._of(event.agent).observe(event))

    def tick(self, now: int) -> list[Verdict]:
        """What is wrong since nothing happened until `now`: hung spans, and time that has run out."""
        verdicts = []
        for span, silence in list(self._open.silent(now)):
            rule = self._rules.of(span.agent).hung_span
            if rule.mode is Mode.OFF or silence < rule.after * NANOSECONDS:
                continue
            self._open.told(span.span_id)
            hung = Loop(
                kind=Kind.HUNG_SPAN,
                mode=rule.mode,
                span_id=span.span_id,
                reason=f"{span.name} has been open for {silence / NANOSECONDS:.0f} s without anything going on",
                metadata={span.kind.value: span.name, "silent_seconds": silence / NANOSECONDS},
            )
            verdicts += self._verdicts(span.agent, [hung])
        for agent, detectors in self._agents.items():
            verdicts += self._verdicts(agent, detectors.tick(now))
        return verdicts

    def _of(self, agent: str | None) -> AgentDetectors:
        found = self._agents.get(agent)
        if found is None:
            found = self._agents[agent] = AgentDetectors(self._rules.of(agent))
            if len(self._agents) > MAX_AGENTS:
                self._agents.popitem(last=False)
                self.forgotten += 1
        self._agents.move_to_end(agent)
        return found

    def _verdicts(self, agent: str | None, loops: Iterable[Loop]) -> list[Verdict]:
        whose: dict[str, Json] = {"agent": agent} if agent is not None else {}
        return [
            Verdict(
                name=EVALUATOR,
                kind=loop.kind.value,
                mode=loop.mode,
                session_id=self._session_id,
                trace_id=self._trace_id,
                span_id=loop.span_id,
                reason=loop.reason,
                metadata={**whose, **loop.metadata},
            )
            for loop in loops
        ]
