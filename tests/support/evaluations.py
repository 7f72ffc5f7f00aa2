"""Evaluations to feed to what stands behind the store."""

from typing import Any

from agenteval_collector.model.news import CommittedEvaluation

from otel_agenteval.outcome import Evaluation, Method, Score, SubjectKind

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"


def evaluation(**changes: Any) -> Evaluation:
    """A passing coherence score of a trace, but for `changes`."""
    arguments: dict[str, Any] = {
        "name": "coherence",
        "version": "1",
        "method": Method.EMBEDDING,
        "subject": SubjectKind.TRACE,
        "subject_id": TRACE_ID,
        "revision": 1,
        "outcome": Score(value=0.75, reason="answers the question", coverage=1.0),
        "threshold": 0.5,
        "session_id": "s-1",
        "trace_id": TRACE_ID,
        "span_id": SPAN_ID,
        "agent": "planner",
        "service": "shop",
        "service_version": "1.2.0",
        "evaluated_at": 1_700_000_000_000_000_000,
    }
    return Evaluation(**{**arguments, **changes})


def committed(*, first: bool = True, final: bool = False, **changes: Any) -> CommittedEvaluation:
    """The same, as the store hands it on."""
    return CommittedEvaluation(evaluation=evaluation(**changes), first=first, final=final)
