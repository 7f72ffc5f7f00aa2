"""The ports of conversations: look-ups in the store."""

from collections.abc import Sequence
from typing import Protocol

from agenteval_collector.model.conversation_links import ConversationLink
from agenteval_collector.model.trace_view import TraceView


class LinkStore(Protocol):
    """The look-ups in the store that conversations need: links of a service, of many those that started first."""

    def link(self, trace_id: str) -> ConversationLink | None: ...

    def has_unnamed(self, service: str) -> bool:
        """Return whether any link of the service names no session."""

    def ending(self, service: str, key: bytes, named: str | None) -> Sequence[ConversationLink]:
        """Links that end in `key`, first those that name the session `named`, last those that name another."""

    def following(
        self, service: str, keys: Sequence[bytes], named: str | None, *, since: int, until: int
    ) -> Sequence[ConversationLink]:
        """Links that follow one of at most four `keys`, and started in that time (ns, both ends included); without
        those that name another session than `named`, if any is given."""


class TurnStore(Protocol):
    """The look-ups in the store that running turns need; those of a session come in pages, with an empty one at last.

    A `place` is a trace's start time and id.
    """

    def view(self, trace_id: str) -> TraceView | None: ...

    def going_on(self, session_id: str, before: tuple[int, str]) -> Sequence[TraceView]:
        """Return the traces before a place whose last turns go on, the newest first."""

    def continuing(self, session_id: str, after: tuple[int, str]) -> Sequence[TraceView]:
        """Return the traces after a place that continue a turn, the oldest first."""
