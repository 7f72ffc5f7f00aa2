"""Loops in traces that are still open, span by span as they arrive.

Every doubt is left to the reading of the complete trace: a tool call whose result its span does not tell (messages
may), a span of an agent that cannot be told, a span that came too late to be in order.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector import reported
from agenteval_collector.clock import Clock
from agenteval_collector.pipeline import Arrival, FoundVerdict, Origin
from agenteval_collector.resources import resource_of
from otel_agenteval.conventions import SessionNaming, attributes
from otel_agenteval.conventions.decoding import recorded
from otel_agenteval.conventions.identity import session_id as named_session
from otel_agenteval.conventions.records import STATUS_ERROR
from otel_agenteval.detectors import Detectors, RuleBook, Step, StepKind, Verdict
from otel_agenteval.light_reader import agent_of, step_of
from otel_agenteval.model import Json
from otel_agenteval.semconv import AGENTEVAL_DETECTORS, SERVICE_NAME

MAX_TRACES: Final = 2048
"""Traces that are watched at once; the one that nothing came of for longest is left to its completion."""

MAX_NAMES: Final = 64
"""Agents and processes of a trace that are remembered."""

MAX_SESSION_ID: Final = 1024
"""Characters of a session's id that verdicts carry."""

_REQUESTS: Final = ("tool", "function")


@dataclass(slots=True)
class _LiveTrace:
    detectors: Detectors
    unnamed: OrderedDict[bytes, Detectors] = field(default_factory=OrderedDict)
    session_id: str | None = None
    agents: set[str] = field(default_factory=set)
    processes: set[str] = field(default_factory=set)
    newest: int = 0


class LiveLoops:
    """The detectors of the open traces. Belongs to one thread; memory is bounded by `MAX_TRACES`."""

    def __init__(self, rules: RuleBook, naming: SessionNaming, clock: Clock) -> None:
        self._rules = rules
        self._naming = naming
        self._clock = clock
        self._traces: OrderedDict[bytes, _LiveTrace] = OrderedDict()

    def __len__(self) -> int:
        return len(self._traces)

    def observe(self, arrivals: Iterable[Arrival]) -> list[FoundVerdict]:
        """What is wrong since these spans have arrived."""
        found: list[FoundVerdict] = []
        for span, origin in sorted(arrivals, key=lambda arrival: arrival.span.end_time_unix_nano):
            if span.end_time_unix_nano:
                found += self._arrived(span, origin)
        return found

    def forget_all(self) -> None:
        """Spans were lost: what is in a row is not known any more."""
        self._traces.clear()

    def _arrived(self, span: Span, origin: Origin) -> list[FoundVerdict]:
        trace = self._of(span.trace_id)
        said = attributes(span.attributes)
        agent = agent_of(said)
        if agent is not None and len(trace.agents) < MAX_NAMES:
            trace.agents.add(agent)
        if origin.process is not None and len(trace.processes) < MAX_NAMES:
            trace.processes.add(origin.process)
        resource = resource_of(origin.resource)
        service = recorded(resource.get(SERVICE_NAME))
        if trace.session_id is None:
            session_id = named_session([said]) or self._naming.session_id([said, resource], service)
            # A longer one is shortened when the trace is read.
            trace.session_id = session_id if session_id is not None and len(session_id) <= MAX_SESSION_ID else None
        trace_id, span_id = span.trace_id.hex(), span.span_id.hex()
        verdicts: list[Verdict] = list(
            reported.verdicts_on(said, trace_id=trace_id, span_id=span_id, session_id=trace.session_id)
        )
        if AGENTEVAL_DETECTORS not in said and AGENTEVAL_DETECTORS not in resource:
            verdicts += self._detected(trace, span, said, agent)
        return [
            FoundVerdict(
                verdict=replace(verdict, session_id=trace.session_id or trace_id),
                agent=reported.agent_of(verdict) or agent or _only(trace.agents),
                service=service,
                processes=frozenset(trace.processes),
                found_at=self._clock.now(),
            )
            for verdict in verdicts
        ]

    def _detected(self, trace: _LiveTrace, span: Span, said: Mapping[str, Json], agent: str | None) -> list[Verdict]:
        step = _step_of(span, said, agent or _only(trace.agents))
        if step is None or step.ended_at is None:
            return []
        if (step.agent is None and trace.agents) or step.ended_at < trace.newest:
            return []
        # An agent may have rules of its own, and is often named by the last span to arrive, its root.
        if step.agent is None and self._rules.agents:
            return []
        trace.newest = step.ended_at
        return (trace.detectors if step.agent is not None else self._unnamed(trace, span)).observe(step)

    def _unnamed(self, trace: _LiveTrace, span: Span) -> Detectors:
        """Without names, what one agent does is what stands below one span: agents side by side have spans each."""
        detectors = trace.unnamed.get(span.parent_span_id)
        if detectors is None:
            trace_id = span.trace_id.hex()
            detectors = trace.unnamed[span.parent_span_id] = Detectors(trace_id, trace_id, self._rules)
            if len(trace.unnamed) > MAX_NAMES:
                trace.unnamed.popitem(last=False)
        trace.unnamed.move_to_end(span.parent_span_id)
        return detectors

    def _of(self, trace_id: bytes) -> _LiveTrace:
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = _LiveTrace(Detectors(trace_id.hex(), trace_id.hex(), self._rules))
            if len(self._traces) > MAX_TRACES:
                self._traces.popitem(last=False)
        self._traces.move_to_end(trace_id)
        return trace


def _step_of(span: Span, said: Mapping[str, Json], agent: str | None) -> Step | None:
    step = step_of(
        span_id=span.span_id.hex(),
        name=span.name,
        attributes=said,
        events=[(event.name, attributes(event.attributes)) for event in span.events],
        failed=span.status.code == STATUS_ERROR,
        status_message=span.status.message,
        agent=agent,
        started_at=span.start_time_unix_nano,
        ended_at=span.end_time_unix_nano,
    )
    if step is None:
        return None
    if step.kind is StepKind.TOOL and step.result is None and step.error is None:
        return replace(step, arguments=None)
    if step.kind is StepKind.MODEL and _asks_for_tools(said):
        # What is said beside a request is no reply, whatever it repeats.
        return replace(step, result="")
    return step


def _asks_for_tools(said: Mapping[str, Json]) -> bool:
    """Whether a model call ended in requests for tools, by its finish reasons or by the form of its reply."""
    for key, value in said.items():
        lowered = key.lower()
        if "finish" in lowered and any(word in str(value) for word in _REQUESTS):
            return True
        is_reply = "output" in lowered or "completion" in lowered
        if is_reply and ("tool_calls" in lowered or (isinstance(value, str) and _requests_in(value))):
            return True
    return False


def _requests_in(text: str) -> bool:
    return any(mark in text for mark in ('"tool_call"', '"tool_calls"', '"tool_use"', '"toolUse"', '"function_call"'))


def _only(names: set[str]) -> str | None:
    return next(iter(names)) if len(names) == 1 else None
