"""Loop detection: whether an answer repeats a recent one, in meaning and words (PandaProbe, "Loop Detection").

The current answer is compared with the answers of the `window` traces before it in the session. A trace without an
answer takes a place in the window, but is not compared. The score rests on the product of cosine similarity (same
meaning) and Jaccard index (same words). So a list of similar items, each in other words, is not a repetition.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.metrics.result import MetricResult, clamp
from otel_agenteval.metrics.similarity import TokenSets
from otel_agenteval.metrics.vectors import UnitVector, Vector, cosine_similarity, unit_vector
from otel_agenteval.model import Json

DEFAULT_WINDOW = 3
"""The number of previous traces that are compared."""


@checked_dataclass(frozen=True, slots=True)
class LoopText:
    """An answer made ready for comparison. A caller who keeps it computes tokens and norm only once."""

    tokens: TokenSets
    vector: UnitVector

    @classmethod
    def of(cls, text: str, vector: Vector | None, *, compatible: bool = False, name: str = "vector") -> Self | None:
        """Make an answer ready for comparison. Return None for the empty text, without reading its vector.

        Raises ValueError, with the `name` of the vector, if the vector is empty or not finite.
        """
        return cls(TokenSets(text, compatible), unit_vector(vector, name)) if text else None


def loop_detection(
    current: str,
    previous: Sequence[str],
    current_vector: Vector | None,
    previous_vectors: Sequence[Vector | None] | npt.NDArray[np.floating],
    window: int = DEFAULT_WINDOW,
    compatible: bool = False,
) -> MetricResult:
    """Return 1 - the highest cosine x Jaccard of `current` with one of the last `window` texts of `previous`.

    `previous` is oldest first. Only the vectors of compared texts are read. `compatible=True` keeps the published
    tokeniser (see `jaccard_similarity`). The result is described at `loop_score`, with indexes into `previous`.
    Raises ValueError if vectors differ in length, are empty or not finite, and if `previous` and
    `previous_vectors` differ in number. Raises it also for a window that is not a whole number of at least 1.
    """
    if len(previous) != len(previous_vectors):
        raise ValueError(f"{len(previous)} previous texts, but {len(previous_vectors)} previous_vectors")
    _check_window(window)
    first = max(0, len(previous) - window)
    return loop_score(
        LoopText.of(current, current_vector, compatible=compatible, name="current_vector"),
        [
            LoopText.of(
                previous[index],
                previous_vectors[index],
                compatible=compatible,
                name=f"previous_vectors[{index}]",
            )
            for index in range(first, len(previous))
        ],
        window=window,
        first_index=first,
    )


def loop_score(
    current: LoopText | None,
    previous: Sequence[LoopText | None],
    *,
    window: int = DEFAULT_WINDOW,
    first_index: int = 0,
) -> MetricResult:
    """Return the score of `loop_detection` for texts that were made ready before. None stands for an empty answer.

    `previous` is oldest first. `first_index` is the position of its first text in the session. `evaluated` is the
    number of comparisons. Without a comparison the score is 1.0. Metadata: `window_size` (the number of comparisons),
    `max_hybrid`, and `comparisons`. Each comparison has `trace_index` (position in the session), `cosine_similarity`,
    `jaccard_similarity` and their product `hybrid_score`, all three in [0, 1].
    Raises ValueError if vectors differ in length, and for a window that is not a whole number of at least 1.
    """
    _check_window(window)
    if current is None:
        return _nothing_to_compare("the output is empty")
    start = max(0, len(previous) - window)
    comparisons: list[Json] = []
    max_hybrid = 0.0
    repeated = 0
    for index, other in enumerate(previous[start:], first_index + start):
        if other is None:
            continue
        cosine = cosine_similarity(current.vector, other.vector)
        jaccard = current.tokens.overlap(other.tokens)
        hybrid = cosine * jaccard
        comparisons.append(
            {
                "trace_index": index,
                "cosine_similarity": cosine,
                "jaccard_similarity": jaccard,
                "hybrid_score": hybrid,
            }
        )
        # Of several equal ones, the newest is named.
        if hybrid >= max_hybrid:
            max_hybrid, repeated = hybrid, index
    if not comparisons:
        return _nothing_to_compare("no previous output to compare with")
    return MetricResult(
        score=clamp(1.0 - max_hybrid),
        reason=f"most like the output at index {repeated} of the session: repetition {max_hybrid:.4f}",
        evaluated=len(comparisons),
        metadata={"window_size": len(comparisons), "max_hybrid": max_hybrid, "comparisons": comparisons},
    )


def _nothing_to_compare(reason: str) -> MetricResult:
    metadata: dict[str, Json] = {"window_size": 0, "max_hybrid": 0.0, "comparisons": []}
    return MetricResult(score=1.0, reason=reason, evaluated=0, metadata=metadata)


def _check_window(window: int) -> None:
    if not isinstance(window, int) or window < 1:
        raise ValueError(f"window is {window!r}, not a whole number of at least 1")
