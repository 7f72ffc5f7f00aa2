"""Session levels for the observable gauges."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    agent: str | None
    service: str | None
    evaluator: str | None
    active: int
    low: int


class Sessions:
    """Whatever levels it was given last."""

    def __init__(self, *levels: Level) -> None:
        self.levels = levels

    def session_levels(self) -> Iterable[Level]:
        return self.levels
