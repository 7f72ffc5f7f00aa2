"""Reading numbers that come from outside."""

from numbers import Real


def unit_interval(value: object, what: str) -> float:
    """`value` as a float; raises ValueError, naming `what` it is, unless it is a number in [0, 1]."""
    if not isinstance(value, Real) or not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"{what} is {value!r}, not a number in [0, 1]")
    return float(value)
