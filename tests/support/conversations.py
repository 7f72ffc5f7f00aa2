"""Sessions of traces that are in no store."""

from collections.abc import Sequence
from typing import TypeAlias

from agenteval_collector.evaluation.conversations.linking import Conversations
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.conversation_links import ConversationLink, LinkLookUp
from agenteval_collector.stores.conversations import ConversationStore

from otel_agenteval.model import Trace

Noted: TypeAlias = list[LinkLookUp] | None


class MemoryLinks(ConversationStore):
    """Links in a dict; counts the `lookups` of links."""

    def __init__(self) -> None:
        self.links: dict[str, ConversationLink] = {}
        self.lookups = 0

    def link(self, trace_id: str, noted: Noted = None) -> ConversationLink | None:
        self.lookups += 1
        return self.links.get(trace_id)

    def has_unnamed(self, service: str, noted: Noted = None) -> bool:
        return any(each.named is None for each in self._of(service))

    def ending(self, service: str, key: bytes, named: str | None, noted: Noted = None) -> Sequence[ConversationLink]:
        self.lookups += 1
        return [each for each in self._of(service) if key in each.ends]

    def following(
        self, service: str, keys: Sequence[bytes], named: str | None, *, since: int, until: int, noted: Noted = None
    ) -> Sequence[ConversationLink]:
        self.lookups += 1
        found = [each for each in self._of(service) if each.follows in keys and since <= each.started_at <= until]
        return [each for each in found if named in (None, each.named or named)]

    def _of(self, service: str) -> list[ConversationLink]:
        return [each for each in self.links.values() if each.service == service]


class Bench:
    """Takes traces, and knows the session of each as it is now."""

    def __init__(self) -> None:
        self.store = MemoryLinks()
        self._conversations = Conversations(self.store)
        self.sessions: dict[str, str] = {}

    def take(self, *traces: Trace, revision: int = 1) -> None:
        """In one commit."""
        commit = Commit()
        for trace in traces:
            placed = self._conversations.place(trace, revision, commit)
            placed.add_to(commit)
            self.sessions[trace.trace_id] = placed.session_id
        for move in commit.moves.values():
            self.sessions[move.trace_id] = move.joined
        self.store.links.update(commit.links)
