"""What the traces of one session say together, beside its scores: its course, and how often it was correct.

An interaction is a trace with ground truth; it is correct from a `tool_use_correctness` of 0.7, as published.
"""

from collections.abc import Sequence
from dataclasses import asdict

from agenteval_collector.model.documents import Document
from otel_agenteval.metrics import conversation_correctness, pass_at_k, pass_hat_k, pass_k_posterior, session_trend
from otel_agenteval.metrics.conversation import DEFAULT_THRESHOLD
from otel_agenteval.metrics.pass_k import Estimator

MAX_K = 10
"""pass@k and pass^k of a conversation are given for k up to this, and up to its interactions."""

ESTIMATORS: tuple[Estimator, ...] = ("plugin", "unbiased")


def trend_document(scores: Sequence[float | None]) -> Document:
    """Whether the session stalls or regresses, from the task_completion of its traces by start; None: no score."""
    return asdict(session_trend(scores))


def interactions_document(correctness: Sequence[float]) -> Document | None:
    """pass@k and pass^k over the interactions of a session, by both estimators and by the Beta posterior; None where
    there is no interaction."""
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
        "posterior": {str(k): asdict(pass_k_posterior(n, c, k)) for k in ks},
    }
