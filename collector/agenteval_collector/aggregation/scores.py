"""The scores of a session, as evaluations.

`agent_reliability` and `agent_consistency` are the published ones. Beside them stand the two figures that the
published aggregation hides: one catastrophe among many good traces barely lowers reliability, but is `max_risk`, and
`flagged_share` says how many traces have a risk above 0.5. Both are risks, lower is better, and have no threshold.

Where no trace of a session is completely judged, there is a score only if it is bad whatever the judge will say.
"""

from collections.abc import Sequence

from agenteval_collector.aggregation.cautious import CautiousScore, CautiousScores, Unjudged
from agenteval_collector.records import PENDING_TRACES, SessionRecord
from otel_agenteval.metrics.session import FLAG_ABOVE
from otel_agenteval.model import Json
from otel_agenteval.outcome import Evaluation, Failure, Method, Outcome, Score, Status, Subject, Unscored

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
            reliability = scores.reliability()
            found.append((RELIABILITY, self._outcome(RELIABILITY, reliability, NO_SIGNAL, scores.unjudged)))
            found += _risks(scores, reliability)
        if CONSISTENCY in self._thresholds:
            found.append(
                (CONSISTENCY, self._outcome(CONSISTENCY, scores.consistency(), NO_CONFIDENCE, scores.unjudged))
            )
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

    def _outcome(self, name: str, score: CautiousScore, nothing: str, unjudged: Unjudged | None) -> Outcome:
        """What is only the highest that a score can come to is one where that is below the threshold already."""
        result = score.result
        if result.score is None or not result.evaluated:
            reason = _and(nothing, unjudged)
            return Unscored(
                status=Status.NOT_APPLICABLE, reason=reason, coverage=result.coverage, metadata=_pending(unjudged)
            )
        if score.bound and unjudged is not None and result.score >= self._thresholds[name]:
            return _missing(f"at most {result.score:.2f}", unjudged, result.coverage)
        reason = _and(result.reason, unjudged)
        metadata = {**result.metadata, **_pending(unjudged)}
        return Score(value=result.score, reason=reason, coverage=result.coverage, metadata=metadata)


def _risks(scores: CautiousScores, reliability: CautiousScore) -> list[tuple[str, Outcome]]:
    """A risk that can only rise is one where it is above 0.5 already."""
    unjudged, risk = scores.unjudged, scores.max_risk
    coverage = reliability.result.coverage
    if risk is None:
        nothing = Unscored(status=Status.NOT_APPLICABLE, reason=NO_SIGNAL, coverage=coverage)
        return [(MAX_RISK, nothing), (FLAGGED_SHARE, nothing)]
    if reliability.bound and unjudged is not None and risk <= FLAG_ABOVE:
        missing = _missing(f"at least {risk:.2f}", unjudged, coverage)
        return [(MAX_RISK, missing), (FLAGGED_SHARE, _missing("no trace is flagged yet", unjudged, coverage))]
    flagged, evaluated = scores.flagged
    metadata = _pending(unjudged)
    riskiest = f"the riskiest of {evaluated} traces with signals has a risk of {risk:.4f}"
    share = f"{flagged} of {evaluated} traces with signals above risk {FLAG_ABOVE}"
    return [
        (MAX_RISK, Score(value=risk, reason=_and(riskiest, unjudged), coverage=coverage, metadata=metadata)),
        (
            FLAGGED_SHARE,
            Score(value=flagged / evaluated, reason=_and(share, unjudged), coverage=coverage, metadata=metadata),
        ),
    ]


def _missing(bound: str, unjudged: Unjudged, coverage: float | None) -> Outcome:
    reason = f"{bound}: {unjudged.reason}"
    if unjudged.status is Status.FAILED:
        return Failure(error_type="unjudged", reason=reason, coverage=coverage)
    return Unscored(status=unjudged.status, reason=reason, coverage=coverage, metadata=_pending(unjudged))


def _pending(unjudged: Unjudged | None) -> dict[str, Json]:
    return {PENDING_TRACES: unjudged.pending} if unjudged is not None and unjudged.pending else {}


def _and(reason: str, unjudged: Unjudged | None) -> str:
    return reason if unjudged is None else f"{reason}; {unjudged.reason}"
