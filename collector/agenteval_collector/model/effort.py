"""The effort of a trace or a session: steps, tokens, time and money."""

import operator
from collections.abc import Callable
from dataclasses import fields
from typing import Final

from otel_agenteval.internal.checked import checked_dataclass


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The effort of a trace or a session; None where it is not known."""

    steps: float | None = 0
    tokens: float | None = 0
    seconds: float | None = 0
    usd: float | None = 0

    def __add__(self, other: "Effort") -> "Effort":
        return self._with(other, operator.add)

    def __sub__(self, other: "Effort") -> "Effort":
        return self._with(other, operator.sub)

    @property
    def rounded(self) -> "Effort":
        """The effort, rounded to microseconds and billionths of a dollar: below that, sums depend on the order of
        adding."""
        digits = {"steps": 0, "tokens": 0, "seconds": 6, "usd": 9}
        values = {name: getattr(self, name) for name in digits}
        return Effort(**{name: None if value is None else round(value, digits[name]) for name, value in values.items()})

    def _with(self, other: "Effort", made: Callable[[float, float], float]) -> "Effort":
        pairs = {each.name: (getattr(self, each.name), getattr(other, each.name)) for each in fields(self)}
        return Effort(**{name: None if None in pair else made(*pair) for name, pair in pairs.items()})


NO_EFFORT: Final = Effort()
