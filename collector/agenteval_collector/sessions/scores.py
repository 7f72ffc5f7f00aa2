"""The scores of a session, as evaluations.

`agent_reliability` and `agent_consistency` are the published ones. On too few signals there is none: a missing signal
raises them. Where no trace of a session is completely judged, there is a score only if it is bad whatever the judge
will say.
"""

from collections.abc import Mapping, Sequence

from agenteval_collector.model.judging import PENDING_TRACES
from agenteval_collector.model.sessions import SessionRecord
from agenteval_collector.sessions.cautious import CautiousScore, CautiousScores
from agenteval_collector.sessions.missing import missing_reasons, missing_status, unjudged_reason
from otel_agenteval.model import Json
from otel_agenteval.outcome import Evaluation, Failure, Method, Outcome, Score, Status, Subject, Unscored

RELIABILITY = "agent_reliability"
CONSISTENCY = "agent_consistency"
VERSION = "1"

_NOTHING = {RELIABILITY: "no trace has a signal of any weight", CONSISTENCY: "no trace has a confidence of any weight"}


class SessionEvaluators:
    """Turns the sums of a session into evaluations."""

    def __init__(
        self, thresholds: Mapping[str, float], min_coverage: float, weightless: Mapping[str, str] | None = None
    ) -> None:
        """Take `thresholds` by name; a name without one is switched off. Below `min_coverage` there is no score.
        `weightless` has the reason why a signal has no weight."""
        self._thresholds = thresholds
        self._min_coverage = min_coverage
        self._weightless = weightless or {}

    def evaluate(
        self,
        record: SessionRecord,
        scores: CautiousScores,
        *,
        trace_id: str | None,
        span_id: str | None,
        service_version: str | None,
        now: int,
    ) -> list[Evaluation]:
        """Return the session's scores now. Their events belong to the span of its last turn."""
        found = {RELIABILITY: CautiousScores.reliability, CONSISTENCY: CautiousScores.consistency}
        return [
            Evaluation(
                name=name,
                version=VERSION,
                method=Method.EXACT,
                subject=Subject.SESSION,
                subject_id=record.session_id,
                revision=record.trace_count,
                outcome=self._outcome(name, score(scores), scores),
                threshold=self._thresholds[name],
                session_id=record.session_id,
                trace_id=trace_id,
                span_id=span_id,
                agent=record.agent,
                service=record.services[0] if record.services else None,
                service_version=service_version,
                evaluated_at=now,
            )
            for name, score in found.items()
            if name in self._thresholds
        ]

    def levels(self, evaluations: Sequence[Evaluation]) -> dict[str, bool]:
        """Return, by evaluator with a score, whether the session is below the threshold."""
        return {each.name: not each.success for each in evaluations if each.success is not None}

    def _outcome(self, name: str, score: CautiousScore, scores: CautiousScores) -> Outcome:
        """Return the score as an outcome. A bound, the highest value that the score can reach, counts only below the
        threshold."""
        result, unjudged = score.result, unjudged_reason(scores)
        if result.score is None or not result.evaluated or (result.coverage or 0.0) < self._min_coverage:
            return self._unscored(name, score, scores)
        if score.bound and unjudged is not None and result.score >= self._thresholds[name]:
            return _without_score(f"at most {result.score:.2f}: {unjudged}", result.coverage, scores)
        reason = result.reason if unjudged is None else f"{result.reason}; {unjudged}"
        metadata = {**result.metadata, **_pending(scores)}
        return Score(value=result.score, reason=reason, coverage=result.coverage, metadata=metadata)

    def _unscored(self, name: str, score: CautiousScore, scores: CautiousScores) -> Outcome:
        coverage = score.result.coverage
        reasons = missing_reasons(scores, self._weightless)
        if coverage is None or coverage >= self._min_coverage:
            reasons.insert(0, _NOTHING[name])
        else:
            reasons.append(f"coverage {coverage:.2f} is below session.min_coverage {self._min_coverage:g}")
        return _without_score("; ".join(reasons), coverage, scores)


def _without_score(reason: str, coverage: float | None, scores: CautiousScores) -> Outcome:
    status = missing_status(scores)
    if status is Status.FAILED:
        return Failure(error_type="unjudged", reason=reason, coverage=coverage)
    return Unscored(status=status, reason=reason, coverage=coverage, metadata=_pending(scores))


def _pending(scores: CautiousScores) -> dict[str, Json]:
    count = scores.unjudged.get(Status.PENDING)
    return {PENDING_TRACES: count} if count else {}
