"""Loops in what is complete: the full reading of a trace, and its answers beside those before it."""

from collections.abc import Collection, Iterable
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import (
    SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK,
    SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK,
    Span,
)

from agenteval_collector.clock import Clock
from agenteval_collector.loops.watched import carries_verdicts, is_watched
from agenteval_collector.pipeline import AssembledTrace, FoundVerdict
from agenteval_collector.reported import REPEATED_ANSWER, agent_of, verdicts_on
from agenteval_collector.resources import resource_of
from otel_agenteval.conventions import attributes
from otel_agenteval.detectors import Detectors, Mode, RuleBook, Verdict, steps_of
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation, Score, Subject
from otel_agenteval.semconv import SERVICE_NAME

_REMOTE_PARENT: Final = SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK | SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK

REPEATED_BELOW: Final = 0.5
"""The loop_detection score below which an answer repeats an earlier one."""


class TraceLoops:
    """What is found in complete traces, whatever was found while they ran. Pure but for the clock."""

    def __init__(self, rules: RuleBook, repeated_answer: Mode, clock: Clock) -> None:
        self._rules = rules
        self._repeated_answer = repeated_answer
        self._clock = clock

    def in_trace(self, trace: Trace, session_id: str, assembled: AssembledTrace) -> list[FoundVerdict]:
        """The loops of a complete trace.

        Steps that our processor has watched in the agent are not looked at again: what it found, their spans carry.
        """
        watched = {Span.FromString(raw).span_id.hex() for raw, origin in assembled.spans if is_watched(raw, origin)}
        # Calls that no span tells of have that of their turn; the processor does not see them.
        watched.difference_update(turn.span_id for turn in trace.turns)
        detectors = Detectors(session_id, trace.trace_id, self._rules)
        steps = [step for step in steps_of(trace) if step.span_id not in watched]
        if self._rules.agents and any(step.agent is None for step in steps) and _misses_its_root(assembled):
            # The root may name an agent that has rules of its own: then this is not the last revision.
            steps = [step for step in steps if step.agent is not None]
        found = [verdict for step in steps for verdict in detectors.observe(step)]
        spans: dict[str | None, set[str]] = {}
        for verdict in found:
            spans.setdefault(verdict.kind, set()).add(verdict.span_id)
        beside = {kind: frozenset(span_ids) for kind, span_ids in spans.items()}
        carried = _carried(assembled, session_id)
        services = _services(assembled, {verdict.span_id for verdict in (*found, *carried)})
        processes = _processes(assembled)
        return [
            FoundVerdict(
                verdict=verdict,
                agent=agent_of(verdict) or trace.agent,
                service=services.get(verdict.span_id, trace.service),
                processes=processes,
                found_at=self._clock.now(),
                beside=read_beside,
            )
            for verdict, read_beside in [
                *((verdict, beside[verdict.kind]) for verdict in found),
                *((verdict, None) for verdict in carried),
            ]
        ]

    def in_answers(
        self, evaluations: Iterable[Evaluation], assembled: AssembledTrace | None = None
    ) -> list[FoundVerdict]:
        """The answers that repeat earlier ones of their session; `assembled` is the trace that they are of."""
        if self._repeated_answer is Mode.OFF:
            return []
        return [
            FoundVerdict(
                verdict=_repeated(each, each.outcome, self._repeated_answer),
                agent=each.agent,
                service=each.service,
                processes=_processes(assembled) if assembled is not None else frozenset(),
                found_at=self._clock.now(),
            )
            for each in evaluations
            if each.name == "loop_detection" and each.subject is Subject.TRACE
            if isinstance(each.outcome, Score) and each.outcome.value < REPEATED_BELOW
        ]


def _repeated(evaluation: Evaluation, score: Score, mode: Mode) -> Verdict:
    return Verdict(
        name=evaluation.name,
        kind=REPEATED_ANSWER,
        mode=mode,
        session_id=evaluation.session_id,
        trace_id=evaluation.subject_id,
        span_id=evaluation.span_id or "",
        reason=score.reason,
        metadata={"score": score.value, "threshold": REPEATED_BELOW},
    )


def _carried(assembled: AssembledTrace, session_id: str) -> list[Verdict]:
    carrying = (Span.FromString(raw) for raw, _ in assembled.spans if carries_verdicts(raw))
    return [
        verdict
        for span in carrying
        for verdict in verdicts_on(
            attributes(span.attributes), trace_id=assembled.trace_id, span_id=span.span_id.hex(), session_id=session_id
        )
    ]


def _services(assembled: AssembledTrace, span_ids: Collection[str]) -> dict[str, str]:
    """The services that these spans are of, as far as they are named: sub-agents may run in others than the root."""
    found = {}
    for raw, origin in assembled.spans if span_ids else ():
        span_id = Span.FromString(raw).span_id.hex()
        service = resource_of(origin.resource).get(SERVICE_NAME)
        if span_id in span_ids and isinstance(service, str) and service.strip():
            found[span_id] = service
    return found


def _misses_its_root(assembled: AssembledTrace) -> bool:
    """Whether a span stands below one of its own process that has not arrived."""
    spans = [Span.FromString(raw) for raw, _ in assembled.spans]
    known = {b"", *(span.span_id for span in spans)}
    return any(span.parent_span_id not in known and span.flags & _REMOTE_PARENT != _REMOTE_PARENT for span in spans)


def _processes(assembled: AssembledTrace) -> frozenset[str]:
    return frozenset(origin.process for _, origin in assembled.spans if origin.process is not None)
