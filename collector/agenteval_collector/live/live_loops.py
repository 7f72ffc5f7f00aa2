"""Find loops and failed model calls in traces that are still open, span by span as they arrive.

Every doubtful case is left to the reading of the complete trace. There are three such cases. The span of a tool call
may not hold its result, while messages may. The agent of a step may not be known. And spans may turn out to arrive in
another order than that in which they ended; then the whole trace is left. Facts of a span that the rest of its trace
may correct are left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.live.live_trace import LiveTrace
from agenteval_collector.model.failed_calls import failed_call
from agenteval_collector.model.logged_requests import Arrival, Origin, resource_of
from agenteval_collector.model.reported_findings import findings_on
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.conventions.agents import agent_of
from otel_agenteval.conventions.decoding import known_text
from otel_agenteval.conventions.identity import SessionNaming, environment_of
from otel_agenteval.conventions.span_errors import error_type, is_cancelled, span_error
from otel_agenteval.conventions.spans import STATUS_ERROR, attributes, span_record
from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.steps import Step, StepKind
from otel_agenteval.finding import Finding, FindingKind
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.loops.light_reader import kind_of, name_of, step_of
from otel_agenteval.model import AgentRun, Json
from otel_agenteval.semconv import AGENTEVAL_DETECTORS, ERROR_TYPE, SERVICE_NAME, SERVICE_VERSION

MAX_TRACES: Final = 2048
"""Traces that are watched at once.

Beyond that, the trace that has had no new span for longest is left to its completion.
"""

MAX_SESSION_ID: Final = 1024
"""Characters of a session's id that findings carry."""


@dataclass(slots=True)
class FoundLive:
    """The findings of spans that have just arrived.

    `carried` findings were made in the agent's process and travelled on the spans. `failed` are failed model calls:
    each stands on its span alone. `recounted` findings were made here, by counting the steps of a trace. The count may
    not start at the trace's beginning, so all findings of its kind so far are given.
    """

    carried: list[Finding] = field(default_factory=list)
    failed: list[Finding] = field(default_factory=list)
    recounted: list[Finding] = field(default_factory=list)


class LiveLoops:
    """The detectors of the open traces. Belongs to one thread. `MAX_TRACES` bounds its memory."""

    def __init__(self, rules: RuleBook, naming: SessionNaming, clock: Clock) -> None:
        self._rules = rules
        self._naming = naming
        self._clock = clock
        self._traces: LruMap[bytes, LiveTrace] = LruMap(MAX_TRACES)

    def observe(self, arrivals: Iterable[Arrival], news: FoundLive) -> None:
        """Add to `news` the loops that these spans complete."""
        for span, origin in sorted(arrivals, key=lambda arrival: arrival.span.end_time_unix_nano):
            if span.end_time_unix_nano:
                self._arrived(span, origin, news)

    def processes_in(self, session_id: str) -> frozenset[str]:
        """Return the processes with spans in the open traces of a session. Safe from any thread.

        As long as no session is known, the trace's id counts as its session.
        """
        traces = self._traces.newest_first()
        of_session = (trace for trace in traces if session_id in (trace.session_id, trace.trace_id))
        return frozenset[str]().union(*(trace.processes for trace in of_session))

    def processes_of(self, trace_id: str) -> frozenset[str]:
        """Return the processes with spans in an open trace. Safe from any thread."""
        trace = self._traces.peek(bytes.fromhex(trace_id))
        return frozenset() if trace is None else frozenset(trace.processes)

    def forget(self, trace_ids: Iterable[str]) -> None:
        """Forget everything that was seen of these traces."""
        for trace_id in trace_ids:
            self._traces.pop(bytes.fromhex(trace_id))

    def forget_all(self) -> None:
        """Forget all traces.

        This is called after spans were lost. Then it is no longer known which steps follow each other directly.
        """
        self._traces.clear()

    def _arrived(self, span: Span, origin: Origin, news: FoundLive) -> None:
        trace = self._traces.get_or_make(span.trace_id, lambda: LiveTrace(span.trace_id.hex(), self._rules))
        values = attributes(span.attributes)
        resource = resource_of(origin.resource)
        if trace.session_id is None:
            service = known_text(resource.get(SERVICE_NAME))
            session_id = self._naming.of([values], service, [resource])
            # A longer id is shortened only when the trace is read, so it is not known here.
            trace.session_id = session_id if session_id is not None and len(session_id) <= MAX_SESSION_ID else None
        named = agent_of(span.name, values, origin.scope)
        if named is not None:
            is_step = kind_of(span.name, values) is not StepKind.OTHER
            trace.agents.heard(named, span.span_id, span.parent_span_id, is_step=is_step)
        if origin.participant is not None:
            trace.met(origin.participant)
        agent = trace.agents.of_step(named, span.parent_span_id)

        def whole(finding: Finding) -> Finding:
            """Return the finding with the session, agent and service that are known now."""
            return replace(
                finding,
                session_id=trace.session_id or trace.trace_id,
                agent=finding.agent or agent,
                service=known_text(resource.get(SERVICE_NAME)),
                service_version=known_text(resource.get(SERVICE_VERSION)),
                environment=environment_of(resource),
                found_at=self._clock.now(),
            )

        carried = findings_on(
            values, trace_id=trace.trace_id, span_id=span.span_id.hex(), session_id=trace.session_id, found_at=0
        )
        news.carried += map(whole, carried)
        news.failed += map(whole, _failed_call(trace, span, origin, values, resource))
        if AGENTEVAL_DETECTORS not in values and AGENTEVAL_DETECTORS not in resource:
            for loop in self._detected(trace, span, origin, values, agent):
                news.recounted += trace.with_earlier(whole(loop))

    def _detected(
        self, trace: LiveTrace, span: Span, origin: Origin, values: Mapping[str, Json], agent: str | None
    ) -> list[Finding]:
        if trace.in_doubt:
            return []
        step = live_step(span, values, agent)
        if step is None:
            return []
        # An agent may have rules of its own. Often its name comes with its root, which is the last span to arrive.
        is_of_nobody = agent is None and self._rules.agents
        if is_of_nobody or (agent is None and trace.agents.may_be_of_several(span.parent_span_id)):
            # The step may stand between steps of a named agent, so it is in doubt which of these are in a row.
            trace.in_doubt = trace.agents.name_steps
            return []
        return trace.observe(step, span.parent_span_id, origin.resource)


def _failed_call(
    trace: LiveTrace, span: Span, origin: Origin, values: Mapping[str, Json], resource: Mapping[str, Json]
) -> list[Finding]:
    """Return the finding that a model call failed, if it did. Of spans within one another only the first to end counts:
    they are mostly one call, which two instrumentations record."""
    has_failed = span.status.code == STATUS_ERROR or ERROR_TYPE in values
    if not has_failed or kind_of(span.name, values) is not StepKind.MODEL:
        return []
    record = span_record(span, resource, origin.scope)
    error = span_error(record)
    if error is None or is_cancelled(record) or not trace.failed(span.span_id, span.parent_span_id):
        return []
    model = name_of(StepKind.MODEL, "", values) or None
    reason, metadata = failed_call(model, error, error_type(record))
    kind = FindingKind.MODEL_FAILED
    return [
        Finding(
            kind=kind,
            severity=kind.severity,
            reason=reason,
            trace_id=trace.trace_id,
            session_id=trace.trace_id,
            span_id=span.span_id.hex(),
            metadata=metadata,
        )
    ]


_REQUESTS: Final = ("tool", "function")


def live_step(span: Span, values: Mapping[str, Json], agent: str | None) -> Step | None:
    """Return the step of an arrived span, without the facts that its trace may correct.

    Return None if the span is no step.
    """
    step = step_of(
        span_id=span.span_id.hex(),
        name=span.name,
        attributes=values,
        events=[(event.name, attributes(event.attributes)) for event in span.events],
        failed=span.status.code == STATUS_ERROR,
        status_message=span.status.message,
        agent=agent,
        # The run's own span arrives after its steps. So all steps below one span count as one run, whoever called it.
        agent_run=AgentRun(span.parent_span_id.hex(), is_called=True, is_tool=True),
        started_at=span.start_time_unix_nano,
        ended_at=span.end_time_unix_nano,
    )
    if step is None:
        return None
    if step.kind is StepKind.TOOL and step.result is None and step.error is None:
        return replace(step, arguments=None)
    if step.kind is StepKind.MODEL and _asks_for_tools(values):
        # Text beside a request for tools is no reply, whatever it repeats.
        return replace(step, result="")
    return step


def _asks_for_tools(values: Mapping[str, Json]) -> bool:
    """Return True if a model call ended in requests for tools.

    Its finish reasons or the form of its reply show that.
    """
    for key, value in values.items():
        lowered = key.lower()
        if "finish" in lowered and any(word in str(value) for word in _REQUESTS):
            return True
        is_reply = "output" in lowered or "completion" in lowered
        if is_reply and ("tool_calls" in lowered or (isinstance(value, str) and _requests_in(value))):
            return True
    return False


def _requests_in(text: str) -> bool:
    return any(mark in text for mark in ('"tool_call"', '"tool_calls"', '"tool_use"', '"toolUse"', '"function_call"'))
