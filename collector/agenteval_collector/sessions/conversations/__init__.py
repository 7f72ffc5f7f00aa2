"""Conversations that no id names: from complete traces to the session each belongs to, by what their models were sent
and replied; and turns that go on from trace to trace."""

from agenteval_collector.sessions.conversations.conversations import Conversations
from agenteval_collector.sessions.conversations.running_turns import RunningTurns

__all__ = ["Conversations", "RunningTurns"]
