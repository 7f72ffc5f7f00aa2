"""Coherence: whether an answer is about its question, by the distance of embeddings (PandaProbe, "Coherence")."""

from otel_agenteval.metrics.result import MetricResult
from otel_agenteval.metrics.vectors import Vector, cosine_similarity, unit_vector


def coherence(
    input: str,  # noqa: A002 - the word for it everywhere else
    output: str,
    input_vector: Vector | None,
    output_vector: Vector | None,
) -> MetricResult:
    """Return 1 - the cosine distance between the embeddings of `input` and `output`. Both are limited to [0, 1].

    `evaluated` is 1. If a text is `""`, `evaluated` is 0 and the score is 1.0: the vectors are not read then. White
    space is text. A vector of zeros has distance 1 to everything. Metadata: `coherence_gap`, the distance.
    Raises ValueError if vectors differ in length, are empty, or are not finite.
    """
    if not input or not output:
        missing = "input" if not input else "output"
        return MetricResult(score=1.0, reason=f"the {missing} is empty", evaluated=0, metadata={"coherence_gap": 0.0})
    similarity = cosine_similarity(
        unit_vector(input_vector, "input_vector"), unit_vector(output_vector, "output_vector")
    )
    gap = 1.0 - similarity
    return MetricResult(
        score=similarity,
        reason=f"cosine distance between input and output is {gap:.4f}",
        evaluated=1,
        metadata={"coherence_gap": gap},
    )
