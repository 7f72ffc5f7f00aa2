"""Jobs that put a trace to the judge which was judged before: what comes of them changes no outcome."""

from collections.abc import Iterable

from agenteval_collector.judge.referrals import JudgedEvaluator
from agenteval_collector.model.judging import JudgeJob
from otel_agenteval.outcome import Evaluation, Method, Status, Subject, Unscored

_AGAIN = Unscored(status=Status.PENDING, reason="asked again; its score stays as it is")


def recheck(trace_id: str, session_id: str, revision: int, evaluators: Iterable[JudgedEvaluator], now: int) -> JudgeJob:
    """Make the job to ask again for the scores of these evaluators, at the time `now` (ns)."""
    pending = [
        Evaluation(
            name=each.name,
            version=each.version,
            method=Method.LLM,
            subject=Subject.TRACE,
            subject_id=trace_id,
            revision=revision,
            outcome=_AGAIN,
            threshold=each.threshold,
            session_id=session_id,
            trace_id=trace_id,
            span_id=None,
            agent=None,
            service=None,
            service_version=None,
            model=each.model,
            evaluated_at=now,
        )
        for each in evaluators
    ]
    return JudgeJob(
        trace_id=trace_id,
        session_id=session_id,
        revision=revision,
        urgent=False,
        pending=tuple(pending),
        recheck=True,
    )
