"""The session of each trace that names none, whatever order the traces of a conversation arrive in.

A session by messages is a chain of traces, each going on from the one before, and its id is that of the first. What
joins two traces depends only on which traces there are, so a trace that arrives late may take others with it: those
that go on from it, and those that were taken for the first continuation of a trace, and are the second.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from agenteval_collector.model.commit import Commit
from agenteval_collector.model.links import Link, Move
from agenteval_collector.sessions.conversations.joining import is_fork, link_of, parent_of
from otel_agenteval.model import Trace

MAX_MOVED: Final = 1000
"""Traces that move to another session at once; the rest of a longer chain stays."""


END_OF_TIME: Final = 2**63 - 1
"""Nanoseconds; no trace starts later."""


class LinkStore(Protocol):
    """The look-ups in the store that conversations need: links of a service, of many those that started first."""

    def link(self, trace_id: str) -> Link | None: ...

    def ending(self, service: str, key: bytes, called: bytes | None) -> Sequence[Link]:
        """Links that end in `key`, first those that are known to have `called` the same, last those that are not."""
        ...

    def following(
        self, service: str, keys: Sequence[bytes], called: bytes | None, *, since: int, until: int
    ) -> Sequence[Link]:
        """Links that follow one of at most four `keys`, and started in that time (ns, both ends included); without
        those that are known to go on from other calls than those `called`, if any are given."""
        ...


class Conversations:
    """Owns no state: what is known is in the store, and in the commit that goes on."""

    def __init__(self, store: LinkStore) -> None:
        self._store = store

    def session_of(self, trace: Trace, revision: int, commit: Commit) -> str:
        """The session that `trace` belongs to; adds to `commit` what is to be kept for that.

        The id that its spans name is the session's, whatever was said. Raises RetryableError, with nothing added then.
        """
        link = link_of(trace)
        known = _Known(self._store, commit.links)
        before = known.link(trace.trace_id) if revision > 1 else None
        if not link.keys and before is None:
            return link.session_id
        known.put(link)
        if link.follows is not None:
            link = link.joined(known.parent(link))
        moves: dict[str, Move] = {}
        _move(known, link, moves)
        # Only what started later can be affected: it goes on from here, or is the second to go on from the same. Before
        # this one it may have been the only one to.
        for each in filter(None, (before, link)):
            affected = known.following(each.service, each.keys, since=each.started_at)
            if each.follows is not None and each.asked is not None:
                affected += known.following(each.service, [each.follows], until=each.started_at)
            for other in affected:
                if other.trace_id != link.trace_id:
                    _move(known, other.joined(known.parent(other)), moves)
        # Which session this trace was in before, the evaluation sees itself.
        for own in (moves, commit.moves):
            own.pop(link.trace_id, None)
        commit.links.update(known.changed)
        for move in moves.values():
            earlier = commit.moves.get(move.trace_id)
            commit.moves[move.trace_id] = move if earlier is None else replace(move, left=earlier.left)
        return link.session_id


def _move(known: "_Known", first: Link, moves: dict[str, Move]) -> None:
    """Put a link where it belongs now, and take along all that goes on from it."""
    pending = [first]
    while pending and len(moves) < MAX_MOVED:
        link = pending.pop()
        stood = known.link(link.trace_id)
        if stood == link:
            continue
        known.put(link)
        if stood is not None and stood.session_id != link.session_id:
            left = moves[link.trace_id].left if link.trace_id in moves else stood.session_id
            moves[link.trace_id] = Move(
                trace_id=link.trace_id, started_at=link.started_at, left=left, joined=link.session_id
            )
            behind = known.following(link.service, link.ends, since=link.started_at)
            pending += [each.joined(link) for each in behind if each.parent == link.trace_id]


class _Known:
    """The links of the store as they are with those of the commit, and with what has changed since."""

    def __init__(self, store: LinkStore, committing: dict[str, Link]) -> None:
        self._store = store
        self._committing = committing
        self.changed: dict[str, Link] = {}

    def put(self, link: Link) -> None:
        self.changed[link.trace_id] = link

    def link(self, trace_id: str) -> Link | None:
        return self.changed.get(trace_id) or self._committing.get(trace_id) or self._store.link(trace_id)

    def parent(self, link: Link) -> Link | None:
        """The trace that a link goes on from in its session."""
        key = link.follows
        if key is None:
            return None
        enders = self._now(self._store.ending(link.service, key, link.asked), link.service)
        enders = [each for each in enders if key in each.ends]
        parent = parent_of(link, enders)
        if parent is None:
            return None
        until = END_OF_TIME if link.asked is None else link.started_at
        rivals = self.following(link.service, [key], parent.called, until=until)
        return None if is_fork(link, parent, enders, rivals) else parent

    def following(
        self,
        service: str,
        keys: Sequence[bytes],
        called: bytes | None = None,
        *,
        since: int = 0,
        until: int = END_OF_TIME,
    ) -> list[Link]:
        """The links that follow one of `keys`, by start."""
        if not keys:
            return []
        found = self._now(self._store.following(service, keys, called, since=since, until=until), service)
        fitting = (each for each in found if each.follows in keys and since <= each.started_at <= until)
        return sorted(fitting, key=lambda each: each.place)

    def _now(self, stored: Iterable[Link], service: str) -> list[Link]:
        """These, as they have become, and all that are newer than the store."""
        links = {each.trace_id: each for each in stored}
        for newer in (self._committing, self.changed):
            links.update((each.trace_id, each) for each in newer.values() if each.service == service)
        return list(links.values())
