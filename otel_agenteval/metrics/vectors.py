"""Cosine similarity of embeddings."""

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from otel_agenteval.metrics.result import clamp

Vector: TypeAlias = Sequence[float] | npt.NDArray[np.floating]
"""An embedding: one or more finite numbers."""

UnitVector: TypeAlias = npt.NDArray[np.float64]
"""A vector of length 1, or of zeros if the embedding is all zeros."""


_SMALL: Final = 1e-100
_LARGE: Final = 1e100
"""Between `_SMALL` and `_LARGE`, the largest number of a vector keeps the sum of squares in the range of a double."""


def unit_vector(vector: Vector | None, name: str) -> UnitVector:
    """Return `vector` scaled to length 1, in double precision. A vector of zeros stays as it is.

    Raises ValueError, with the argument's `name`, unless `vector` is a flat, non-empty sequence of finite numbers.
    """
    try:
        array = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not a sequence of numbers: {error}") from error
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}, expected one dimension and at least one number")
    largest = float(np.maximum.reduce(np.abs(array)))
    if _SMALL < largest < _LARGE:
        return array / math.sqrt(array.dot(array))
    if not math.isfinite(largest):
        raise ValueError(f"{name} has NaN or infinity at index {int(np.argmin(np.isfinite(array)))}")
    if largest == 0.0:
        return np.zeros_like(array)
    # The squares would leave the range of a double, so the largest number is brought to 1 first.
    scaled = array / largest
    return scaled / math.sqrt(scaled.dot(scaled))


def cosine_similarity(a: UnitVector, b: UnitVector) -> float:
    """Return the cosine of the angle between two unit vectors, limited to [0, 1].

    Opposite directions and vectors of zeros give 0. Raises ValueError if the vectors differ in length.
    """
    if a.size != b.size:
        raise ValueError(f"vectors of {a.size} and {b.size} numbers cannot be compared; embed both with one model")
    return 1.0 - clamp(1.0 - float(a.dot(b)))
