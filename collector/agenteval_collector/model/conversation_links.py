"""Links between traces that belong to one conversation by their messages, without an id that names it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

from otel_agenteval.internal.checked import checked_dataclass


class LinkQuery(StrEnum):
    """The queries for links in the store."""

    OF_TRACE = "of_trace"
    UNNAMED = "unnamed"
    ENDING = "ending"
    FOLLOWING = "following"


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class ConversationLink:
    """Links a trace to the conversation that it belongs to.

    `follows` is the digest of the messages that it was sent. `said`, `reply` and `calls` are digests that a later trace
    may follow: of the whole exchange, of the reply's id, of the ids of its tool calls. If a user is recorded, each
    digest includes the user.

    `named` is the session id that the trace itself names. `parent` is the trace that it goes on from; None if it
    begins a conversation, and if both name a session. `answered`: the model replied. Times are in nanoseconds since
    the Unix epoch.
    """

    trace_id: str
    session_id: str
    service: str
    started_at: int
    ended_at: int = 0
    named: str | None = None
    follows: bytes | None = None
    said: bytes | None = None
    reply: bytes | None = None
    calls: bytes | None = None
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
        """The digests by which the trace may be joined to others, four at most."""
        return self.ends if self.follows is None else (self.follows, *self.ends)

    @property
    def is_second_record(self) -> bool:
        """True if the trace has a reply without its words: another trace may have the same reply with them."""
        return self.follows is not None and self.follows == self.reply

    @property
    def is_attempt(self) -> bool:
        """Whether the trace began a conversation and got no reply. The next trace with the same messages continues
        it."""
        return self.said is not None and self.said == self.follows

    def behind(self, parent: "ConversationLink | None") -> "ConversationLink":
        """Return the link with this parent. The session stays."""
        if parent is None or (self.named is not None and parent.named is not None):
            return replace(self, parent=None)
        return replace(self, parent=parent.trace_id)

    def is_joined_as(self, other: "ConversationLink") -> bool:
        """Return whether both have the same place in the same conversation."""
        return (self.keys, self.parent, self.named) == (other.keys, other.parent, other.named)


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The move of a trace to another session, because it turned out to go on from another trace, or from none."""

    trace_id: str
    started_at: int
    left: str
    joined: str

    @property
    def place(self) -> tuple[int, str]:
        """Its place in either session: start and id."""
        return self.started_at, self.trace_id


class LinkLookUp(NamedTuple):
    """A look-up of links in the store, with the values of its parameters, and what it found."""

    query: LinkQuery
    values: Mapping[str, Any]
    found: Sequence[ConversationLink]
