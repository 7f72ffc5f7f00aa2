"""The session of each trace, in whatever order the traces of a conversation arrive.

A conversation is a chain of traces, in which each trace continues the one before. Which traces are joined depends only
on the set of traces, not on their order. So a trace that arrives late may take others with it. These are traces that
continue it, and traces that were taken for the first continuation of another trace, but are the second.

A trace that names a session is in that session. So are the traces behind it that name none, and the traces before the
first that names one. If no trace of the chain names a session, the session's id is that of the first trace.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final

from agenteval_collector.model.commit import Commit
from agenteval_collector.model.conversation_links import ConversationLink, Move
from agenteval_collector.sessions.conversations.known_links import MAX_MOVED, KnownLinks, NotedLinks
from agenteval_collector.sessions.conversations.link_rules import link_of
from agenteval_collector.sessions.conversations.ports import LinkStore
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import Trace

MAX_SERVICES: Final = 1000
"""Services that are remembered, each with the answer whether a trace of it names no session."""


@checked_dataclass(frozen=True, slots=True)
class Placed:
    """The session of a trace, with the links and moves that the commit has to store for it."""

    session_id: str
    _trace_id: str = ""
    _links: Mapping[str, ConversationLink] = field(default_factory=dict)
    _moves: Mapping[str, Move] = field(default_factory=dict)

    def add_to(self, commit: Commit) -> None:
        """Add the links and moves to `commit`, which `place` was called with."""
        # The evaluation finds out by itself which session this trace was in before.
        commit.moves.pop(self._trace_id, None)
        for move in self._moves.values():
            # A trace that moves twice in one commit leaves the session in which the store has it.
            earlier = commit.moves.get(move.trace_id)
            commit.moves[move.trace_id] = move if earlier is None else replace(move, left=earlier.left)
        commit.links.update(self._links)


class Conversations:
    """Finds sessions by the links in the store and in the current commit.

    It remembers only the services in which all traces name their session. For these nothing has to be looked up.
    """

    def __init__(self, store: LinkStore, *, is_alone: bool = True) -> None:
        """Take `is_alone` as true if no other process adds links meanwhile."""
        self._store = store
        self._is_alone = is_alone
        self._unnamed: LruMap[str, bool] = LruMap(MAX_SERVICES)

    def place(self, trace: Trace, revision: int, commit: Commit) -> Placed:
        """Find the session that `trace` belongs to, among those of the store and of `commit`.

        If the spans name a session id, that is the session, whatever was said. Raises RetryableError.
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
        """Return whether `link`, or any other link of its service, names no session."""
        found = self._unnamed.get(link.service)
        if not found and link.named is None:
            found = True
            self._unnamed.put(link.service, found)
        elif found is None:
            found = store.has_unnamed(link.service)
            # "None" is not remembered beside other processes: another one may have the first link without a session.
            if found or self._is_alone:
                self._unnamed.put(link.service, found)
        return found


def _join(known: KnownLinks, link: ConversationLink, before: ConversationLink | None) -> dict[str, Move]:
    """Put a link, and all links that it affects, where they belong. Return the moves of traces that follow from this,
    by trace id.

    `before` is the link of the trace's earlier revision, if there is one.
    """
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
    # The usual case needs nothing more: a new trace that continues the last one and names no session.
    if before is not None or now.named is not None or len(changed) > 1:
        concerned = dict.fromkeys(trace_id for each in changed for trace_id in (each.parent, each.trace_id))
        for trace_id in filter(None, concerned):
            _settle(known, trace_id, moves)
    return moves


def _settle(known: KnownLinks, trace_id: str, moves: dict[str, Move]) -> None:
    """Put a trace into its session, together with all traces before and behind it that name none.

    Adds the traces that change their session to `moves`.
    """
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
