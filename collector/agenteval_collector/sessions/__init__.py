"""Sessions: outcomes of traces go in, the session of each trace and the scores of sessions come out."""

from agenteval_collector.sessions.in_memory import Sessions
from agenteval_collector.sessions.live import LiveSessions
from agenteval_collector.sessions.scores import SessionEvaluators
from agenteval_collector.sessions.stored import PastSessions, StoredSessions

__all__ = ["LiveSessions", "PastSessions", "SessionEvaluators", "Sessions", "StoredSessions"]
