"""The effort of a trace or a session: steps, tokens, time and money."""

import operator
from collections.abc import Callable
from typing import Final

from agenteval_collector.model.usage import NO_USAGE, UsageTotals
from otel_agenteval.internal.checked import checked_dataclass


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The effort of a trace or a session; None if it is not known. `usage` has its tokens and money part by part.

    `asked` and `answered` are the characters of what users said, and of what the last turn of each trace answered.
    """

    steps: float | None = 0
    tokens: float | None = 0
    seconds: float | None = 0
    usd: float | None = 0
    asked: float | None = 0
    answered: float | None = 0
    usage: UsageTotals = NO_USAGE

    def __add__(self, other: "Effort") -> "Effort":
        return self._with(other, operator.add, self.usage + other.usage)

    def __sub__(self, other: "Effort") -> "Effort":
        return self._with(other, operator.sub, self.usage - other.usage)

    @property
    def rounded(self) -> "Effort":
        """The effort, rounded to microseconds and billionths of a dollar: below that, sums depend on the order of
        adding."""
        digits = {"steps": 0, "tokens": 0, "seconds": 6, "usd": 9}
        values = {name: getattr(self, name) for name in digits}
        rounded = {name: None if value is None else round(value, digits[name]) for name, value in values.items()}
        return Effort(**rounded, usage=self.usage)

    def _with(self, other: "Effort", operation: Callable[[float, float], float], usage: UsageTotals) -> "Effort":
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in _ADDED}
        return Effort(**{name: None if None in pair else operation(*pair) for name, pair in pairs.items()}, usage=usage)


MEASURES: Final = ("steps", "tokens", "seconds", "usd")
"""The measures by which efforts are compared."""
_ADDED: Final = (*MEASURES, "asked", "answered")


NO_EFFORT: Final = Effort()
