"""Make the documents of figures: the course of a session, hit rates of findings, agreement with labels."""

from collections.abc import Sequence
from typing import Final

from agenteval_collector.api.documents import (
    FailureRateDocument,
    HitRateDocument,
    InteractionsDocument,
    PosteriorDocument,
)
from agenteval_collector.api.quality_documents import AgreementDocument, HalfDocument, LabellerDocument, QualityDocument
from agenteval_collector.api.rendering import document
from agenteval_collector.findings.hit_rate import HitRate
from agenteval_collector.model.labelled import LabelledEvaluator
from agenteval_collector.model.quality import VersionRate
from agenteval_collector.runtime.times import rfc3339
from otel_agenteval.metrics import (
    Half,
    agreement,
    conversation_correctness,
    pass_at_k,
    pass_hat_k,
    pass_k_posterior,
)
from otel_agenteval.metrics.conversation import DEFAULT_THRESHOLD
from otel_agenteval.metrics.pass_k import Estimator

MAX_K: Final = 10
"""pass@k and pass^k of a conversation are given for k up to this, and up to its interactions."""

ESTIMATORS: Final[tuple[Estimator, ...]] = ("plugin", "unbiased")


def interactions_document(correctness: Sequence[float]) -> InteractionsDocument | None:
    """Return pass@k and pass^k over the interactions of a session, by both estimators and by the Beta posterior; None
    where there is no interaction.

    An interaction is a trace with ground truth; it is correct from a `tool_use_correctness` of 0.7, as published.
    """
    if not correctness:
        return None
    n, c = len(correctness), sum(score >= DEFAULT_THRESHOLD for score in correctness)
    ks = range(1, min(n, MAX_K) + 1)
    return {
        "interactions": n,
        "correct": c,
        "threshold": DEFAULT_THRESHOLD,
        "conversation_correct": conversation_correctness(correctness).score == 1.0,
        "pass_at_k": {each: {str(k): pass_at_k(n, c, k, each) for k in ks} for each in ESTIMATORS},
        "pass_hat_k": {each: {str(k): pass_hat_k(n, c, k, each) for k in ks} for each in ESTIMATORS},
        "posterior": {str(k): document(PosteriorDocument, pass_k_posterior(n, c, k)) for k in ks},
    }


def hit_rate_document(found: HitRate) -> HitRateDocument:
    """Return the failures among an agent's sessions with an error finding, and among those without one."""
    return {
        "with_error": document(FailureRateDocument, found.with_error),
        "without_error": document(FailureRateDocument, found.without_error),
    }


def agreement_document(evaluator: LabelledEvaluator) -> AgreementDocument:
    """Return the agreement of an evaluator's scores with labels."""
    found = agreement(evaluator.scores)
    older, newer = map(_half, found.halves or (None, None))
    return document(
        AgreementDocument,
        found,
        name=evaluator.name,
        method=evaluator.method,
        evaluator_version=evaluator.version,
        model=evaluator.model,
        source=evaluator.source,
        labels=found.n,
        labelled_by=[document(LabellerDocument, each) for each in evaluator.labelled_by],
        older=older,
        newer=newer,
    )


def quality_document(found: VersionRate) -> QualityDocument:
    """Return the rate at which an agent's version passes an evaluator."""
    return document(
        QualityDocument, found.rate, **found.rated._asdict(), models=list(found.models), unscored=found.unscored
    )


def _half(half: Half | None) -> HalfDocument | None:
    if half is None:
        return None
    return document(HalfDocument, half, labels=half.n, first=rfc3339(half.first), last=rfc3339(half.last))
