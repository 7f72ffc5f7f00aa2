"""How many inputs a property test draws, by the profile that is loaded."""

from hypothesis import settings


def inputs(factor: float) -> int:
    """Return `factor` times the number of inputs that other property tests draw; at least 3."""
    return max(3, round(factor * settings.default.max_examples))
