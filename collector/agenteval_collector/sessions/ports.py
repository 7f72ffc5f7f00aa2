"""The port to the stored sessions."""

from collections.abc import Sequence
from typing import Protocol

from agenteval_collector.model.sessions import StoredSession, StoredTrace


class SessionStore(Protocol):
    """Reads sessions and their traces from the store. A `place` is a trace's start and its id."""

    def session(self, session_id: str) -> StoredSession | None: ...

    def session_traces(self, session_id: str) -> Sequence[StoredTrace]: ...

    def neighbours(
        self, session_id: str, place: tuple[int, str], earlier: int, later: int
    ) -> Sequence[tuple[int, str]]: ...

    def traces(self, trace_ids: Sequence[str]) -> Sequence[StoredTrace]: ...
