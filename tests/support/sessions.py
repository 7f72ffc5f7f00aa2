"""Session levels for the observable gauges."""

from collections.abc import Iterable

from agenteval_collector.model.sessions import SessionLevel


def level(agent: str | None, service: str | None, evaluator: str | None, active: int, low: int) -> SessionLevel:
    return SessionLevel(agent=agent, service=service, evaluator=evaluator, active=active, low=low)


class Past:
    """The same past sessions of every agent."""

    def __init__(self, sessions: int = 0, low: int = 0) -> None:
        self.sessions, self.low = sessions, low

    def count(self, agent: str | None, service: str | None, evaluator: str) -> tuple[int, int]:
        return self.sessions, self.low


class Sessions:
    """Source of the levels that it was given last."""

    def __init__(self, *levels: SessionLevel) -> None:
        self.levels = levels

    def session_levels(self) -> Iterable[SessionLevel]:
        return self.levels
