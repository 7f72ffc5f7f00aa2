"""Conversations that no id names: complete traces go in, the session of each comes out, by what their models were sent
and replied."""

from agenteval_collector.sessions.conversations.linking import Conversations
from agenteval_collector.sessions.conversations.running_turns import RunningTurns

__all__ = ["Conversations", "RunningTurns"]
