"""Sessions: outcomes of traces go in. The session of each trace and the scores of sessions come out."""

from agenteval_collector.sessions.in_memory import Sessions
from agenteval_collector.sessions.live_sessions import LiveSessions
from agenteval_collector.sessions.past_sessions import PastSessions, StoredSessions
from agenteval_collector.sessions.session_evaluators import SessionEvaluators

__all__ = ["LiveSessions", "PastSessions", "SessionEvaluators", "Sessions", "StoredSessions"]
