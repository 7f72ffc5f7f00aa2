"""Links between the traces of conversations that no id names, as they pass between evaluation and the store."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A trace in its conversation. The digests are those of `Conversation`, each together with the user where one is
    recorded; `answered`: the model replied. `parent` is the trace that it goes on from in the same session, None where
    it begins one. `started_at` is in nanoseconds since the Unix epoch.
    """

    trace_id: str
    session_id: str
    service: str
    started_at: int
    follows: bytes | None = None
    asked: bytes | None = None
    said: bytes | None = None
    reply: bytes | None = None
    calls: bytes | None = None
    called: bytes | None = None
    keeps_calls: bool = False
    answered: bool = False
    parent: str | None = None

    @property
    def place(self) -> tuple[int, str]:
        """Its place among the traces of a session: start and id."""
        return self.started_at, self.trace_id

    @property
    def ends(self) -> tuple[bytes, ...]:
        """The digests that other traces may follow."""
        return tuple(key for key in (self.said, self.reply, self.calls) if key is not None)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The digests by which it may be joined to others, four at most."""
        return self.ends if self.follows is None else (self.follows, *self.ends)

    def joined(self, parent: "Link | None") -> "Link":
        """The same behind `parent`; without one it begins a session of its own."""
        if parent is None:
            return replace(self, parent=None, session_id=self.trace_id)
        return replace(self, parent=parent.trace_id, session_id=parent.session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A trace that was in another session before: it turned out to go on from another trace, or from none."""

    trace_id: str
    started_at: int
    left: str
    joined: str

    @property
    def place(self) -> tuple[int, str]:
        """Its place in either session: start and id."""
        return self.started_at, self.trace_id
