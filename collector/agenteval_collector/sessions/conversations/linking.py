"""The session of each trace, whatever order the traces of a conversation arrive in.

A conversation is a chain of traces, each going on from the one before. What joins two traces depends only on which
traces there are, so a trace that arrives late may take others with it: those that go on from it, and those that were
taken for the first continuation of a trace, and are the second.

A trace that names a session is in that one, and so are the traces behind it that name none. Those before the first that
names one are in its session too. Where none does, the session's id is that of the first trace.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final

from agenteval_collector.model.commit import Commit
from agenteval_collector.model.conversation_links import ConversationLink, Move
from agenteval_collector.sessions.conversations.known_links import MAX_MOVED, KnownLinks, NotedLinks
from agenteval_collector.sessions.conversations.link_rules import link_of
from agenteval_collector.sessions.conversations.ports import LinkStore
from otel_agenteval.checked import dataclass
from otel_agenteval.lru import LruMap
from otel_agenteval.model import Trace

MAX_SERVICES: Final = 1000
"""Services of which it is remembered whether all their traces name a session."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The session of a trace, and what is to be kept for that."""

    session_id: str
    _trace_id: str = ""
    _links: Mapping[str, ConversationLink] = field(default_factory=dict)
    _moves: Mapping[str, Move] = field(default_factory=dict)

    def keep(self, commit: Commit) -> None:
        """Add it to the commit with which the trace was looked for."""
        # The evaluation itself sees in which session this trace was before.
        commit.moves.pop(self._trace_id, None)
        for move in self._moves.values():
            earlier = commit.moves.get(move.trace_id)
            commit.moves[move.trace_id] = move if earlier is None else replace(move, left=earlier.left)
        commit.links.update(self._links)


class Conversations:
    """Finds sessions by the links in the store and in the current commit. It remembers only in which services all
    traces name their session: for these nothing has to be looked up."""

    def __init__(self, store: LinkStore, *, is_alone: bool = True) -> None:
        """`is_alone`: no other process adds links meanwhile."""
        self._store = store
        self._is_alone = is_alone
        self._unnamed: LruMap[str, bool] = LruMap(MAX_SERVICES)

    def place(self, trace: Trace, revision: int, commit: Commit) -> Placed:
        """Find the session that `trace` belongs to, among those of the store and of `commit`.

        The id that its spans name is the session's, whatever was said. Raises RetryableError.
        """
        link = link_of(trace)
        store = self._store if self._is_alone else NotedLinks(self._store, commit.looked_up)
        known = KnownLinks(store, commit.links)
        before = known.link(trace.trace_id) if revision > 1 else None
        if not link.keys and before is None:
            return Placed(link.session_id)
        known.put(link)
        moves: dict[str, Move] = {}
        if before is not None or self._has_unnamed(link, store):
            moves = _join(known, link, before)
            moves.pop(link.trace_id, None)
        return Placed(known.changed[link.trace_id].session_id, link.trace_id, known.changed, moves)

    def _has_unnamed(self, link: ConversationLink, store: LinkStore) -> bool:
        """Return whether this or any other link of its service names no session."""
        found = self._unnamed.get(link.service)
        if not found and link.named is None:
            found = True
            self._unnamed.put(link.service, found)
        elif found is None:
            found = store.has_unnamed(link.service)
            # Another process may have the first that names none.
            if found or self._is_alone:
                self._unnamed.put(link.service, found)
        return found


def _join(known: KnownLinks, link: ConversationLink, before: ConversationLink | None) -> dict[str, Move]:
    """Put a link, which was `before`, and all that are affected where they belong. Returns what moves by that."""
    parent = known.parent(link)
    now = link.behind(parent)
    if now.named is None and (before is None or before.is_joined_as(now)):
        stood = parent if before is None else before
        now = replace(now, session_id=stood.session_id if stood else now.trace_id)
    known.put(now)
    changed = [] if before is not None and before.is_joined_as(now) else [now, *([before] if before else [])]
    for other in known.affected([link, before] if before else [link]):
        joined = other.behind(known.parent(other))
        if joined != other:
            known.put(joined)
            changed += [other, joined]
    moves: dict[str, Move] = {}
    # The usual case is settled by now: a trace that goes on from the last one, and names no session.
    if before is not None or now.named is not None or len(changed) > 1:
        concerned = dict.fromkeys(trace_id for each in changed for trace_id in (each.parent, each.trace_id))
        for trace_id in filter(None, concerned):
            _settle(known, trace_id, moves)
    return moves


def _settle(known: KnownLinks, trace_id: str, moves: dict[str, Move]) -> None:
    """Put a trace, and all traces before and behind it that name no session, into the session that is theirs."""
    first = known.link(trace_id)
    for _ in range(MAX_MOVED):
        before = known.link(first.parent) if first and first.parent and first.named is None else None
        if before is None:
            break
        first = before
    if first is None:
        return
    chain, naming = known.chain(first)
    named = min(naming, key=lambda each: each.place).named if naming else None
    session_id = first.named or named or (first.trace_id if first.parent is None else first.session_id)
    for each in chain:
        if each.session_id != session_id and len(moves) < MAX_MOVED:
            known.put(replace(each, session_id=session_id))
            moves[each.trace_id] = Move(
                trace_id=each.trace_id, started_at=each.started_at, left=each.session_id, joined=session_id
            )
