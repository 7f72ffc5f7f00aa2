"""Correctness of a whole conversation (Gaussia, "Agentic Metric")."""

from collections.abc import Sequence

from otel_agenteval.metrics.result import MetricResult, unit_interval
from otel_agenteval.model import Json

DEFAULT_THRESHOLD = 0.7
"""The score from which on an interaction is correct, as published."""


def conversation_correctness(scores: Sequence[float], threshold: float = DEFAULT_THRESHOLD) -> MetricResult:
    """Return 1.0 if every interaction is correct, 0.0 if one is not, None for a conversation without interactions.

    `scores` has one number in [0, 1] for each interaction, which is correct if it reaches `threshold`. Metadata:
    `correct_interactions`, `correct_indices`, `threshold`. Raises ValueError for a score or threshold outside [0, 1].
    """
    limit = unit_interval(threshold, "threshold")
    values = [unit_interval(score, f"score of interaction {index}") for index, score in enumerate(scores)]
    correct: list[Json] = [index for index, score in enumerate(values) if score >= limit]
    metadata: dict[str, Json] = {
        "correct_interactions": len(correct),
        "correct_indices": correct,
        "threshold": limit,
    }
    if not values:
        return MetricResult(score=None, reason="the conversation has no interactions", evaluated=0, metadata=metadata)
    return MetricResult(
        score=float(len(correct) == len(values)),
        reason=f"{len(correct)} of {len(values)} interactions are correct",
        evaluated=len(values),
        metadata=metadata,
    )
