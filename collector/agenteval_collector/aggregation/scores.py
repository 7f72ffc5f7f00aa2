"""The scores of a session, as evaluations.

`agent_reliability` and `agent_consistency` are the published ones. Beside them stand the two figures that the
published aggregation hides: one catastrophe among many good traces barely lowers reliability, but is `max_risk`, and
`flagged_share` says how many traces have a risk above 0.5. Both are risks, lower is better, and have no threshold.
"""

from collections.abc import Sequence

from agenteval_collector.aggregation.cautious import CautiousScores
from agenteval_collector.records import SessionRecord
from otel_agenteval.metrics import MetricResult
from otel_agenteval.outcome import Evaluation, Method, Outcome, Score, Status, Subject, Unscored

RELIABILITY = "agent_reliability"
CONSISTENCY = "agent_consistency"
MAX_RISK = "max_risk"
FLAGGED_SHARE = "flagged_share"
VERSION = "1"

NO_SIGNAL = "no trace has a signal of any weight"
NO_CONFIDENCE = "no trace has a confidence of any weight"


class SessionEvaluators:
    """Turns the sums of a session into evaluations. `thresholds` by name; a name without one is switched off."""

    def __init__(self, thresholds: dict[str, float], min_coverage: float) -> None:
        self._thresholds = thresholds
        self._min_coverage = min_coverage

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
        """The session's scores now; their events belong to the span of its last turn."""
        found: list[tuple[str, Outcome]] = []
        if RELIABILITY in self._thresholds:
            found.append((RELIABILITY, _outcome(scores.reliability(), NO_SIGNAL, scores.unjudged)))
            found += _risks(scores)
        if CONSISTENCY in self._thresholds:
            found.append((CONSISTENCY, _outcome(scores.consistency(), NO_CONFIDENCE, scores.unjudged)))
        return [
            Evaluation(
                name=name,
                version=VERSION,
                method=Method.EXACT,
                subject=Subject.SESSION,
                subject_id=record.session_id,
                revision=record.trace_count,
                outcome=outcome,
                threshold=self._thresholds.get(name),
                session_id=record.session_id,
                trace_id=trace_id,
                span_id=span_id,
                agent=record.agent,
                service=record.services[0] if record.services else None,
                service_version=service_version,
                evaluated_at=now,
            )
            for name, outcome in found
        ]

    def levels(self, evaluations: Sequence[Evaluation]) -> dict[str, bool]:
        """By evaluator with a threshold, whether the session is low: below it, on enough signals to say so."""
        return {
            each.name: each.success is False and (each.outcome.coverage or 0.0) >= self._min_coverage
            for each in evaluations
            if each.threshold is not None
        }


def _outcome(result: MetricResult, nothing: str, unjudged: str | None) -> Outcome:
    if result.score is None or not result.evaluated:
        reason = _and(nothing, unjudged)
        return Unscored(status=Status.NOT_APPLICABLE, reason=reason, coverage=result.coverage)
    reason = _and(result.reason, unjudged)
    return Score(value=result.score, reason=reason, coverage=result.coverage, metadata=result.metadata)


def _and(reason: str, unjudged: str | None) -> str:
    return reason if unjudged is None else f"{reason}; {unjudged}"


def _risks(scores: CautiousScores) -> list[tuple[str, Outcome]]:
    result = scores.reliability()
    if scores.max_risk is None:
        nothing = Unscored(status=Status.NOT_APPLICABLE, reason=NO_SIGNAL, coverage=result.coverage)
        return [(MAX_RISK, nothing), (FLAGGED_SHARE, nothing)]
    flagged, evaluated = scores.flagged
    return [
        (
            MAX_RISK,
            Score(
                value=scores.max_risk,
                reason=f"the riskiest of {evaluated} traces has a risk of {scores.max_risk:.4f}",
                coverage=result.coverage,
            ),
        ),
        (
            FLAGGED_SHARE,
            Score(
                value=flagged / evaluated,
                reason=f"{flagged} of {evaluated} traces have a risk above 0.5",
                coverage=result.coverage,
            ),
        ),
    ]
