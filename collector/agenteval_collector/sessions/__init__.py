"""From outcomes of traces to scores of sessions."""

from agenteval_collector.sessions.live import LiveSessions, SessionLevel
from agenteval_collector.sessions.scores import SessionEvaluators
from agenteval_collector.sessions.sessions import Sessions

__all__ = ["LiveSessions", "SessionEvaluators", "SessionLevel", "Sessions"]
