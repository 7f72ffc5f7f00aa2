"""Find loops in complete traces."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import (
    SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK,
    SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK,
    Span,
)

from agenteval_collector.evaluation.findings.repeated_answer import THRESHOLD, may_restate, repeated_answer
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.logged_requests import Origin, resource_of
from agenteval_collector.model.reported_findings import findings_on
from agenteval_collector.model.turn_summary import TurnSummary
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.conventions.decoding import known_text
from otel_agenteval.conventions.identity import environment_of
from otel_agenteval.conventions.spans import attributes
from otel_agenteval.detectors.rules import RuleBook, loop
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import Step, steps_of
from otel_agenteval.finding import Finding, FindingKind, Mode
from otel_agenteval.model import Json, Trace
from otel_agenteval.outcome import Evaluation
from otel_agenteval.semconv import AGENTEVAL_DETECTORS, AGENTEVAL_FINDINGS, SERVICE_NAME, SERVICE_VERSION

_WATCHED: Final = AGENTEVAL_DETECTORS.encode()
_FOUND: Final = AGENTEVAL_FINDINGS.encode()
_REMOTE_PARENT: Final = SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK | SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK


class TraceLoops:
    """Finds the loops of complete traces, whatever was found while they ran. Pure except for the clock."""

    def __init__(self, rules: RuleBook, repeated_answer: Mode, clock: Clock) -> None:
        self._rules = rules
        self._fewest = rules.fewest_calls
        self._repeated_answer = repeated_answer
        self._clock = clock

    def in_trace(self, trace: Trace, session_id: str, assembled: AssembledTrace) -> list[Finding]:
        """Return the loops of a complete trace.

        Steps that our processor has watched in the agent are not looked at again. Their spans carry what it found.
        """
        # Most traces have fewer calls than any rule has repetitions, so the detectors need not run.
        findings = self._repeated(trace, session_id, assembled) if _most_calls(trace) >= self._fewest else []
        findings += self._carried(assembled, session_id)
        if not findings:
            return []
        origins = {Span.FromString(raw).span_id.hex(): origin for raw, origin in assembled.spans}
        return [self._whole(loop, trace, origins) for loop in findings]

    def _repeated(self, trace: Trace, session_id: str, assembled: AssembledTrace) -> list[Finding]:
        """Run the detectors over the steps of a trace."""
        watched = {Span.FromString(raw).span_id.hex() for raw, origin in assembled.spans if _is_watched(raw, origin)}
        # Calls without a span of their own have their turn's span id. The processor does not see such calls.
        watched.difference_update(turn.span_id for turn in trace.turns)
        detectors = Detectors(session_id, trace.trace_id, self._rules)
        before, now = _told(trace)
        for step in before:
            detectors.observe(step)  # Loops that this completes were told with an earlier trace.
        steps = [*now, *(step for step in steps_of(trace) if step.span_id not in watched)]
        if self._rules.agents and any(step.agent is None for step in steps) and _misses_its_root(assembled):
            # The root may name an agent that has rules of its own. Its arrival then makes a later revision.
            steps = [step for step in steps if step.agent is not None]
        return [loop for step in steps for loop in detectors.observe(step)]

    def in_answers(
        self, compared: Evaluation, previous: Sequence[TurnSummary], turns: Sequence[TurnSummary]
    ) -> list[Finding]:
        """Return the repeated answer of a trace, if any.

        `turns` are the trace's turns. `previous` are the turns before it in its session. `compared` is the trace's
        outcome of loop_detection.
        """
        if self._repeated_answer is Mode.OFF or not may_restate(compared.outcome):
            return []
        repetition = repeated_answer(previous, turns)
        if repetition is None:
            return []
        earlier = "the answer before" if repetition.back == 1 else f"the answer {repetition.back} turns before"
        reason = f"for the second time in a row the agent restates an earlier answer to another question, now {earlier}"
        metadata: dict[str, Json] = {"score": repetition.score, "threshold": THRESHOLD, "turns_back": repetition.back}
        finding = loop(
            FindingKind.REPEATED_ANSWER, self._repeated_answer, compared.span_id, reason, metadata, repetition.doubt
        )
        if finding is None:
            return []
        return [
            replace(
                finding,
                session_id=compared.session_id,
                trace_id=compared.subject_id,
                turn=repetition.turn,
                agent=compared.agent,
                service=compared.service,
                service_version=compared.service_version,
                environment=compared.environment,
                found_at=self._clock.now(),
            )
        ]

    def _carried(self, assembled: AssembledTrace, session_id: str) -> list[Finding]:
        carrying = (Span.FromString(raw) for raw, _ in assembled.spans if _FOUND in raw)
        return [
            finding
            for span in carrying
            for finding in findings_on(
                attributes(span.attributes),
                trace_id=assembled.trace_id,
                span_id=span.span_id.hex(),
                session_id=session_id,
                found_at=self._clock.now(),
            )
        ]

    def _whole(self, finding: Finding, trace: Trace, origins: Mapping[str, Origin]) -> Finding:
        """Return a loop with its agent and service. Sub-agents may run in other services than the root."""
        origin = origins.get(finding.span_id or "")
        resource = resource_of(origin.resource) if origin is not None else {}
        service = known_text(resource.get(SERVICE_NAME))
        return replace(
            finding,
            agent=finding.agent or trace.agent,
            service=service or trace.service,
            service_version=known_text(resource.get(SERVICE_VERSION)) if service else trace.service_version,
            environment=environment_of(resource) or trace.environment,
            found_at=self._clock.now(),
        )


def _most_calls(trace: Trace) -> int:
    """Return the number of tool calls of a trace, or of its model calls if there are more of these.

    Tool calls that the trace is told of count too.
    """
    tools = len(trace.told) + sum(len(turn.tool_calls) for turn in trace.turns)
    return max(tools, sum(len(turn.model_calls) for turn in trace.turns))


def _is_watched(span: bytes, origin: Origin) -> bool:
    """Return True if the detectors ran over this serialized span in the process where it ended."""
    # Searching bytes is far cheaper than walking attributes. If content quotes the attribute's name, the detectors
    # skip that span. Nothing else is lost.
    return _WATCHED in origin.resource or _WATCHED in span


def _told(trace: Trace) -> tuple[list[Step], list[Step]]:
    """Return the calls of the first turn that earlier traces made, in two lists.

    The first list holds the calls whose results earlier traces were told of. The second holds the calls whose results
    came with this trace. A program that calls a model in a loop makes a trace of every call.
    """
    turn = trace.turns[0] if trace.told else None
    if turn is None:
        return [], []
    known = len(trace.told) - trace.told_now
    before, now = (
        replace(trace, turns=(replace(turn, tool_calls=calls, model_calls=()),))
        for calls in (trace.told[:known], trace.told[known:])
    )
    return steps_of(before), steps_of(now)


def _misses_its_root(assembled: AssembledTrace) -> bool:
    """Return True if a span's parent is a span of the same process that has not arrived."""
    spans = [Span.FromString(raw) for raw, _ in assembled.spans]
    span_ids = {b"", *(span.span_id for span in spans)}
    return any(span.parent_span_id not in span_ids and span.flags & _REMOTE_PARENT != _REMOTE_PARENT for span in spans)
