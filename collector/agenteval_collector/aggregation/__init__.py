"""From outcomes of traces to scores of sessions."""

from agenteval_collector.aggregation.live import LiveSessions, SessionLevel
from agenteval_collector.aggregation.scores import SessionEvaluators
from agenteval_collector.aggregation.sessions import Sessions

__all__ = ["LiveSessions", "SessionEvaluators", "SessionLevel", "Sessions"]
