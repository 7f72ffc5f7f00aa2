"""One trace while it is open: the detectors of its agents, and the verdicts of which more is to become known."""

from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.loops.agents import Agents
from agenteval_collector.pipeline import FoundVerdict
from otel_agenteval.detectors import Detectors, RuleBook, Step, Verdict

MAX_AGENTS: Final = 64
"""Agents of a trace that are looked at; the one that did nothing for longest is forgotten."""
MAX_ORIGINS: Final = 64
"""Processes and resources of a trace that are told apart."""
MAX_VERDICTS: Final = 256
"""Verdicts on a trace while it is open; more are left to the complete trace."""
MAX_UNNAMED: Final = 64
"""Verdicts on a trace whose agent or session may become known; the complete trace names the others."""


class _Watched(NamedTuple):
    """The detectors of one agent, and the resource that its steps come from."""

    detectors: Detectors
    resource: bytes


@dataclass(slots=True)
class _Unnamed:
    """A verdict, and the span that its agent's name is looked for at, from the parent of the step upwards."""

    found: FoundVerdict
    above: bytes


class LiveTrace:
    """What is known of a trace by the spans that have arrived. Each agent is looked at on its own."""

    def __init__(self, trace_id: str, rules: RuleBook) -> None:
        self.session_id: str | None = None
        self.agents = Agents()
        self.processes: set[str] = set()
        self.in_doubt = False
        """Whether steps may be missing between those that have arrived: the complete trace has them in order."""
        self._trace_id = trace_id
        self._rules = rules
        self._watched: OrderedDict[str | bytes, _Watched] = OrderedDict()
        self._newest: dict[bytes, int] = {}
        self._spans: dict[str | None, set[str]] = {}
        self._unnamed: deque[_Unnamed] = deque(maxlen=MAX_UNNAMED)

    def met(self, process: str) -> None:
        """The process has a span in the trace."""
        if len(self.processes) < MAX_ORIGINS:
            self.processes.add(process)

    def observe(self, step: Step, parent_id: bytes, resource: bytes) -> list[Verdict]:
        """The loops that a step completes; none once the trace is in doubt, by this step or before.

        An exporter sends what has ended, in this order. What comes by another one may come earlier or later.
        """
        ended_at = step.ended_at or 0
        # Without names, what one agent does is what stands below one span: agents side by side have spans each.
        watched = self._of(step.agent if step.agent is not None else parent_id, resource)
        is_late = ended_at < self._newest.get(resource, 0)
        if is_late or watched.resource != resource or len(self._newest) > MAX_ORIGINS:
            self.in_doubt = True
            return []
        self._newest[resource] = ended_at
        verdicts = watched.detectors.observe(step)
        for verdict in verdicts:
            self._spans.setdefault(verdict.kind, set()).add(verdict.span_id)
        self.in_doubt = sum(map(len, self._spans.values())) >= MAX_VERDICTS
        return verdicts

    def beside(self, verdict: Verdict) -> frozenset[str]:
        """The spans on which its kind of loop was found in this trace."""
        return frozenset(self._spans[verdict.kind])

    def found(self, found: FoundVerdict, parent_id: bytes) -> FoundVerdict:
        """The verdict on a span below `parent_id` with the trace's session; what is not known of it may be later."""
        found = _of_session(found, self.session_id)
        if found.agent is None or self.session_id is None:
            self._unnamed.append(_Unnamed(found, parent_id))
        return found

    def named_by(self, span: Span) -> list[FoundVerdict]:
        """The verdicts of which more is known since `span` has arrived."""
        if not self._unnamed:
            return []
        changed = []
        for each in self._unnamed:
            before = each.found
            agent = before.agent or self.agents.below(each.above)
            if agent is None and each.above == span.span_id:
                each.above = span.parent_span_id
                agent = self.agents.below(each.above)
            each.found = _of_session(replace(before, agent=agent), self.session_id)
            if each.found != before:
                changed.append(each.found)
        if changed:
            still = [each for each in self._unnamed if each.found.agent is None or self.session_id is None]
            self._unnamed = deque(still, maxlen=MAX_UNNAMED)
        return changed

    def _of(self, agent: str | bytes, resource: bytes) -> _Watched:
        watched = self._watched.get(agent)
        if watched is None:
            detectors = Detectors(self._trace_id, self._trace_id, self._rules)
            watched = self._watched[agent] = _Watched(detectors, resource)
            if len(self._watched) > MAX_AGENTS:
                self._watched.popitem(last=False)
        self._watched.move_to_end(agent)
        return watched


def _of_session(found: FoundVerdict, session_id: str | None) -> FoundVerdict:
    verdict = found.verdict
    if verdict.session_id == (session_id or verdict.trace_id):
        return found
    return replace(found, verdict=replace(verdict, session_id=session_id or verdict.trace_id))
