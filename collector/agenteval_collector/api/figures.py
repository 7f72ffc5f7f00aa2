"""Make the documents of figures: the course of a session, hit rates of findings, agreement with labels."""

from collections.abc import Sequence
from typing import Final

from agenteval_collector.api.documents import (
    AgreementDocument,
    FailureRateDocument,
    HalfDocument,
    HitRateDocument,
    InteractionsDocument,
    Interval,
    PosteriorDocument,
    TrendDocument,
)
from agenteval_collector.findings.hit_rate import FailureRate, HitRate
from agenteval_collector.model.labelled import LabelledEvaluator
from agenteval_collector.runtime.times import rfc3339
from otel_agenteval.metrics import (
    Half,
    agreement,
    conversation_correctness,
    pass_at_k,
    pass_hat_k,
    pass_k_posterior,
    session_trend,
)
from otel_agenteval.metrics.conversation import DEFAULT_THRESHOLD
from otel_agenteval.metrics.pass_k import Estimator

MAX_K: Final = 10
"""pass@k and pass^k of a conversation are given for k up to this, and up to its interactions."""

ESTIMATORS: Final[tuple[Estimator, ...]] = ("plugin", "unbiased")


def trend_document(scores: Sequence[float | None]) -> TrendDocument:
    """Say whether a session stalls or regresses, from the task_completion of its traces by start; None: no score."""
    trend = session_trend(scores)
    return {
        "stalled": trend.stalled,
        "regressed": trend.regressed,
        "best": trend.best,
        "last": trend.last,
        "evaluated": trend.evaluated,
        "skipped": trend.skipped,
        "reason": trend.reason,
    }


def interactions_document(correctness: Sequence[float]) -> InteractionsDocument | None:
    """pass@k and pass^k over the interactions of a session, by both estimators and by the Beta posterior; None where
    there is no interaction.

    An interaction is a trace with ground truth; it is correct from a `tool_use_correctness` of 0.7, as published.
    """
    if not correctness:
        return None
    result = conversation_correctness(correctness)
    n, c = len(correctness), sum(score >= DEFAULT_THRESHOLD for score in correctness)
    ks = range(1, min(n, MAX_K) + 1)
    return {
        "interactions": n,
        "correct": c,
        "threshold": DEFAULT_THRESHOLD,
        "conversation_correct": result.score == 1.0,
        "pass_at_k": {each: {str(k): pass_at_k(n, c, k, each) for k in ks} for each in ESTIMATORS},
        "pass_hat_k": {each: {str(k): pass_hat_k(n, c, k, each) for k in ks} for each in ESTIMATORS},
        "posterior": {str(k): _posterior(n, c, k) for k in ks},
    }


def hit_rate_document(found: HitRate) -> HitRateDocument:
    """The failures among an agent's sessions with an error finding, and among those without one."""
    return {"with_error": _failure_rate(found.with_error), "without_error": _failure_rate(found.without_error)}


def agreement_document(evaluator: LabelledEvaluator) -> AgreementDocument:
    """The agreement of an evaluator's scores with labels."""
    found = agreement(evaluator.scores)
    older, newer = found.halves or (None, None)
    return {
        "name": evaluator.name,
        "method": evaluator.method,
        "evaluator_version": evaluator.version,
        "model": evaluator.model,
        "labels": found.n,
        "metrics": found.metrics,
        "intervals": {name: list(interval) for name, interval in found.intervals.items()},
        "reasons": found.reasons,
        "older": _half(older),
        "newer": _half(newer),
    }


def _posterior(n: int, c: int, k: int) -> PosteriorDocument:
    found = pass_k_posterior(n, c, k)
    return {
        "pass_at_k": found.pass_at_k,
        "pass_hat_k": found.pass_hat_k,
        "pass_at_k_interval": _interval(found.pass_at_k_interval),
        "pass_hat_k_interval": _interval(found.pass_hat_k_interval),
        "level": found.level,
        "reason": found.reason,
    }


def _interval(interval: tuple[float, float] | None) -> Interval | None:
    return None if interval is None else list(interval)


def _failure_rate(rate: FailureRate) -> FailureRateDocument:
    return {
        "sessions": rate.sessions,
        "failed": rate.failed,
        "rate": rate.rate,
        "interval": _interval(rate.interval),
    }


def _half(half: Half | None) -> HalfDocument | None:
    if half is None:
        return None
    return {
        "labels": half.n,
        "first": rfc3339(half.first),
        "last": rfc3339(half.last),
        "mean_score": half.mean_score,
        "mean_label": half.mean_label,
    }
