"""The scores of a session, as evaluations.

`agent_reliability` and `agent_consistency` are the published scores. A missing signal raises them, so there is no score
on too few signals. If no trace of a session is completely judged, there is a score only if it is bad whatever the judge
will say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agenteval_collector.evaluation.sessions.session import Session
from agenteval_collector.evaluation.sessions.upper_bound import BoundedScore, BoundedScores
from agenteval_collector.model.judge_jobs import PENDING_TRACES
from otel_agenteval.metrics.signals import SIGNAL_NAMES
from otel_agenteval.model import Json
from otel_agenteval.outcome import (
    Evaluation,
    Failure,
    JudgedPart,
    Method,
    Outcome,
    Score,
    Status,
    SubjectKind,
    Unscored,
)

RELIABILITY = "agent_reliability"
CONSISTENCY = "agent_consistency"
VERSION = "1"

_FIRST: Final = (
    Status.PENDING,
    Status.OVER_BUDGET,
    Status.NO_JUDGE,
    Status.FAILED,
    Status.SAMPLED_OUT,
    Status.NO_CONTENT,
)
"""Statuses of missing signals, the most important first.

A session without a score has the first status that one of its missing signals has.
"""
_NOTHING = {RELIABILITY: "no trace has a signal of any weight", CONSISTENCY: "no trace has a confidence of any weight"}


@dataclass(frozen=True, slots=True)
class SessionEvaluators:
    """Makes evaluations from the sums of a session, by the settings of session scores.

    `thresholds` are by name: a score without a threshold is switched off. Below `min_coverage` there is no score.
    `weightless` has, by signal, the reason why it has no weight.
    """

    thresholds: Mapping[str, float]
    min_coverage: float
    weightless: Mapping[str, str] = field(default_factory=dict)

    def evaluate(self, session: Session, now: int) -> list[Evaluation]:
        """Return the session's scores at `now` (ns). Their events are attached to the span of its last turn."""
        state, scores = session.state, session.scores
        (_, trace_id), span_id = session.last_turn
        bounds = {RELIABILITY: BoundedScores.reliability, CONSISTENCY: BoundedScores.consistency}
        return [
            Evaluation(
                name=name,
                version=VERSION,
                method=Method.EXACT,
                subject=SubjectKind.SESSION,
                subject_id=state.session_id,
                revision=state.revision,
                outcome=self._outcome(name, score(scores), scores),
                threshold=self.thresholds[name],
                session_id=state.session_id,
                trace_id=trace_id or None,
                span_id=span_id,
                agent=state.agent,
                service=state.service,
                service_version=session.service_version,
                environment=state.environment,
                part=session.part,
                evaluated_at=now,
            )
            for name, score in bounds.items()
            if name in self.thresholds
        ]

    def levels(self, evaluations: Sequence[Evaluation]) -> dict[str, bool]:
        """Return for each evaluator whether the session scores below the threshold.

        Return nothing for a session that was not drawn at random. Otherwise the share of low sessions would not be that
        of all sessions.
        """
        return {
            evaluation.name: evaluation.success is False
            for evaluation in evaluations
            if evaluation.part is JudgedPart.RANDOM
        }

    def _outcome(self, name: str, score: BoundedScore, scores: BoundedScores) -> Outcome:
        """Return the score as an outcome.

        A bound is the highest value that the score can reach, so it counts only if it is below the threshold.
        """
        result, unjudged = score.result, unjudged_reason(scores)
        if result.score is None or not result.evaluated or (result.coverage or 0.0) < self.min_coverage:
            return self._unscored(name, score, scores)
        if score.bound and unjudged is not None and result.score >= self.thresholds[name]:
            return _without_score(f"at most {result.score:.2f}: {unjudged}", result.coverage, scores)
        reason = result.reason if unjudged is None else f"{result.reason}; {unjudged}"
        metadata = {**result.metadata, **_pending(scores)}
        return Score(value=result.score, reason=reason, coverage=result.coverage, metadata=metadata)

    def _unscored(self, name: str, score: BoundedScore, scores: BoundedScores) -> Outcome:
        coverage = score.result.coverage
        reasons = missing_reasons(scores, self.weightless)
        if coverage is None or coverage >= self.min_coverage:
            reasons.insert(0, _NOTHING[name])
        else:
            reasons.append(f"coverage {coverage:.2f} is below session.min_coverage {self.min_coverage:g}")
        return _without_score("; ".join(reasons), coverage, scores)


def _without_score(reason: str, coverage: float | None, scores: BoundedScores) -> Outcome:
    status = missing_status(scores)
    if status is Status.FAILED:
        return Failure(error_type="unjudged", reason=reason, coverage=coverage)
    return Unscored(status=status, reason=reason, coverage=coverage, metadata=_pending(scores))


def _pending(scores: BoundedScores) -> dict[str, Json]:
    count = scores.unjudged.get(Status.PENDING)
    return {PENDING_TRACES: count} if count else {}


def missing_status(scores: BoundedScores) -> Status:
    """Return the status of a session without a score: the first of `_FIRST` that one of its missing signals has."""
    statuses = {status for _, status in scores.missing}
    return next((status for status in _FIRST if status in statuses), Status.NOT_APPLICABLE)


def unjudged_reason(scores: BoundedScores) -> str | None:
    """Return a text that says how many traces lack a signal that was asked for, and why. Return None if no trace
    does."""
    unjudged = scores.unjudged
    if not unjudged:
        return None
    why = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in unjudged.items())
    return f"{sum(unjudged.values())} of {scores.traces} traces are not judged ({why})"


def missing_reasons(scores: BoundedScores, weightless: Mapping[str, str]) -> list[str]:
    """Return the reasons why signals are missing. `weightless` has those of the signals without a weight."""
    reasons = [_without_judge(scores), unjudged_reason(scores), *weightless.values()]
    for status, what in ((Status.SAMPLED_OUT, "is sampled out"), (Status.NO_CONTENT, "lacks its content")):
        of_names = {name: count for name in SIGNAL_NAMES if (count := scores.missing.get((name, status)))}
        reasons += [f"{name} {what} in {count} of {scores.traces} traces" for name, count in of_names.items()]
    return [reason for reason in reasons if reason]


def _without_judge(scores: BoundedScores) -> str | None:
    names = [name for name in SIGNAL_NAMES if (name, Status.NO_JUDGE) in scores.missing]
    if not names:
        return None
    return f"{' and '.join(names)} {'take' if len(names) > 1 else 'takes'} a judge"
