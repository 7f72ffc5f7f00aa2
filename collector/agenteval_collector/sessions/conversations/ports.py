"""The ports of conversations. They are look-ups in the store."""

from collections.abc import Sequence
from typing import Protocol

from agenteval_collector.model.conversation_links import ConversationLink
from agenteval_collector.model.trace_view import TraceView


class LinkStore(Protocol):
    """Looks up the links of a service in the store. If there are many, it returns those that started first."""

    def link(self, trace_id: str) -> ConversationLink | None: ...

    def has_unnamed(self, service: str) -> bool:
        """Return whether any link of the service names no session."""

    def ending(self, service: str, key: bytes, named: str | None) -> Sequence[ConversationLink]:
        """Return the links that end in `key`. Those of session `named` come first, then those that name none, those of
        another session last."""

    def following(
        self, service: str, keys: Sequence[bytes], named: str | None, *, since: int, until: int
    ) -> Sequence[ConversationLink]:
        """Return the links that follow one of at most four `keys`, and started from `since` to `until`.

        Both times are in nanoseconds and included. If `named` is given, links that name another session are left out.
        """


class TurnStore(Protocol):
    """Looks up the traces of turns in the store.

    The traces of a session come in pages; the page after the last is empty. A `place` is a trace's start and its id.
    """

    def view(self, trace_id: str) -> TraceView | None: ...

    def going_on(self, session_id: str, before: tuple[int, str]) -> Sequence[TraceView]:
        """Return the traces before a place whose last turns go on, the newest first."""

    def continuing(self, session_id: str, after: tuple[int, str]) -> Sequence[TraceView]:
        """Return the traces after a place that continue a turn, the oldest first."""
