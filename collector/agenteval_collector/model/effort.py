"""The effort that a trace or a session took."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The effort of a trace or a session; None where it is not known."""

    steps: float | None = 0
    tokens: float | None = 0
    seconds: float | None = 0
    usd: float | None = 0

    def __add__(self, other: "Effort") -> "Effort":
        return self._by(other, 1)

    def __sub__(self, other: "Effort") -> "Effort":
        return self._by(other, -1)

    def _by(self, other: "Effort", sign: int) -> "Effort":
        return Effort(
            steps=_sum(self.steps, other.steps, sign),
            tokens=_sum(self.tokens, other.tokens, sign),
            seconds=_sum(self.seconds, other.seconds, sign),
            usd=_sum(self.usd, other.usd, sign),
        )


NO_EFFORT: Final = Effort()


def _sum(one: float | None, other: float | None, sign: int) -> float | None:
    return None if one is None or other is None else one + sign * other
