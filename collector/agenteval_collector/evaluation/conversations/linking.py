"""The session of each trace, in whatever order the traces of a conversation arrive.

A conversation is a chain of traces, in which each trace continues the one before. Which traces are joined depends only
on the set of traces, not on their order. So a trace that arrives late may take others with it. These are traces that
continue it, and traces that were taken for the first continuation of another trace, but are the second.

A trace that names a session is in that session. So are the traces behind it that name none, and the traces before the
first that names one. If no trace of the chain names a session, the session's id is that of the first trace.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from hashlib import blake2b
from typing import Final

from agenteval_collector.model.commit import Commit
from agenteval_collector.model.conversation_links import ConversationLink, LinkLookUp, Move
from agenteval_collector.stores.conversations import ConversationStore
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import ConversationDigests, Trace

MAX_SERVICES: Final = 1000
"""Services that are remembered, each with the answer whether a trace of it names no session."""
MAX_MOVED: Final = 1000
"""The most traces that move to another session at once. The rest of a longer chain stays."""
END_OF_TIME: Final = 2**63 - 1
"""The latest start of a trace, in nanoseconds since the Unix epoch."""
RETRY: Final = 60 * 1_000_000_000
"""Nanoseconds after a failed first call, within which a next attempt is joined to it."""


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

    def __init__(self, store: ConversationStore, *, is_alone: bool = True) -> None:
        """Take `is_alone` as true if no other process adds links meanwhile."""
        self._store = store
        self._is_alone = is_alone
        self._unnamed: LruMap[str, bool] = LruMap(MAX_SERVICES)

    def place(self, trace: Trace, revision: int, commit: Commit) -> Placed:
        """Find the session that `trace` belongs to, among those of the store and of `commit`.

        If the spans name a session id, that is the session, whatever was said. Raises RetryableError.
        """
        link = link_of(trace)
        links = KnownLinks(self._store, commit.links, None if self._is_alone else commit.looked_up)
        before = links.link(trace.trace_id) if revision > 1 else None
        if not link.keys and before is None:
            return Placed(link.session_id)
        links.put(link)
        moves: dict[str, Move] = {}
        if before is not None or self._has_unnamed(link, links):
            moves = _join(links, link, before)
            moves.pop(link.trace_id, None)
        return Placed(links.changed[link.trace_id].session_id, link.trace_id, links.changed, moves)

    def _has_unnamed(self, link: ConversationLink, links: "KnownLinks") -> bool:
        """Return whether `link`, or any other link of its service, names no session."""
        unnamed = self._unnamed.get(link.service)
        if not unnamed and link.named is None:
            unnamed = True
            self._unnamed.put(link.service, unnamed)
        elif unnamed is None:
            unnamed = links.has_unnamed(link.service)
            # "None" is not remembered beside other processes: another one may have the first link without a session.
            if unnamed or self._is_alone:
                self._unnamed.put(link.service, unnamed)
        return unnamed


def _join(links: "KnownLinks", link: ConversationLink, before: ConversationLink | None) -> dict[str, Move]:
    """Put a link, and all links that it affects, where they belong. Return the moves of traces that follow from this,
    by trace id.

    `before` is the link of the trace's earlier revision, if there is one.
    """
    parent = links.parent(link)
    now = link.behind(parent)
    if now.named is None and (before is None or before.is_joined_as(now)):
        stood = parent if before is None else before
        now = replace(now, session_id=stood.session_id if stood else now.trace_id)
    links.put(now)
    changed = [] if before is not None and before.is_joined_as(now) else [now, *([before] if before else [])]
    for other in links.affected([link, before] if before else [link]):
        joined = other.behind(links.parent(other))
        if joined != other:
            links.put(joined)
            changed += [other, joined]
    moves: dict[str, Move] = {}
    # The usual case needs nothing more: a new trace that continues the last one and names no session.
    if before is not None or now.named is not None or len(changed) > 1:
        concerned = dict.fromkeys(trace_id for link in changed for trace_id in (link.parent, link.trace_id))
        for trace_id in filter(None, concerned):
            _settle(links, trace_id, moves)
    return moves


def _settle(links: "KnownLinks", trace_id: str, moves: dict[str, Move]) -> None:
    """Put a trace into its session, together with all traces before and behind it that name none.

    Adds the traces that change their session to `moves`.
    """
    first = links.link(trace_id)
    for _ in range(MAX_MOVED):
        before = links.link(first.parent) if first and first.parent and first.named is None else None
        if before is None:
            break
        first = before
    if first is None:
        return
    chain, naming = links.chain(first)
    named = min(naming, key=lambda link: link.place).named if naming else None
    session_id = first.named or named or (first.trace_id if first.parent is None else first.session_id)
    for linked in chain:
        if linked.session_id != session_id and len(moves) < MAX_MOVED:
            links.put(replace(linked, session_id=session_id))
            moves[linked.trace_id] = Move(
                trace_id=linked.trace_id, started_at=linked.started_at, left=linked.session_id, joined=session_id
            )


class KnownLinks:
    """The links of a service as they are now: those of the store, of the commit, and later changes (`changed`).

    Each look-up in the store is added to `noted`. If there are several processes, the look-ups are repeated before
    anything is stored that rests on them.
    """

    def __init__(
        self, store: ConversationStore, committing: dict[str, ConversationLink], noted: list[LinkLookUp] | None
    ) -> None:
        self._store = store
        self._committing = committing
        self._noted = noted
        self.changed: dict[str, ConversationLink] = {}

    def put(self, link: ConversationLink) -> None:
        self.changed[link.trace_id] = link

    def link(self, trace_id: str) -> ConversationLink | None:
        return self.changed.get(trace_id) or self._committing.get(trace_id) or self._store.link(trace_id, self._noted)

    def has_unnamed(self, service: str) -> bool:
        return self._store.has_unnamed(service, self._noted)

    def parent(self, link: ConversationLink) -> ConversationLink | None:
        """Return the trace that a link continues in its conversation. Return None if no trace is certain."""
        key = link.follows
        if key is None:
            return None
        enders = self._now(self._store.ending(link.service, key, link.named, self._noted), link.service)
        # Newer forms of links may not end so any more, and `_now` adds all newer links of the service.
        enders = [ender for ender in enders if key in ender.ends]
        parent = parent_of(link, enders)
        if parent is None:
            return None
        rivals = self._following(link.service, [key], parent.named)
        return None if is_fork(link, parent, enders, rivals) else parent

    def affected(self, links: Sequence[ConversationLink]) -> list[ConversationLink]:
        """Return the other links that may continue another trace now, because `links` are new or have changed.

        A link that started later may continue one of `links`, or may become the second to continue the same trace. If
        one of `links`, or such a later link, names a session, earlier links that name none may change as well.
        """
        found = {}
        for link in links:
            later = self._following(link.service, link.keys, since=link.started_at)
            same = [link.follows] if link.follows is not None and link.named is not None else []
            if any(link.named is not None for link in later):
                same = list(link.keys)
            for other in (*later, *self._following(link.service, same, until=link.started_at)):
                found[other.trace_id] = other
        return [link for link in found.values() if link.trace_id != links[0].trace_id]

    def chain(self, first: ConversationLink) -> tuple[list[ConversationLink], list[ConversationLink]]:
        """Return two lists: `first` and the links behind it that name no session, and the next links that name one."""
        chain, naming = [first], list[ConversationLink]()
        for link in chain:  # The list grows while it is read.
            if len(chain) >= MAX_MOVED:
                break
            behind = self._following(link.service, link.ends, since=link.started_at)
            behind = [other for other in behind if other.parent == link.trace_id]
            chain += [link for link in behind if link.named is None]
            naming += [link for link in behind if link.named is not None]
        return chain, naming

    def _following(
        self,
        service: str,
        keys: Sequence[bytes],
        named: str | None = None,
        *,
        since: int = 0,
        until: int = END_OF_TIME,
    ) -> list[ConversationLink]:
        """Return the links that follow one of `keys` and started in that time (ns, both ends included)."""
        if not keys:
            return []
        links = self._now(
            self._store.following(service, keys, named, since=since, until=until, noted=self._noted), service
        )
        return [link for link in links if link.follows in keys and since <= link.started_at <= until]

    def _now(self, stored: Iterable[ConversationLink], service: str) -> list[ConversationLink]:
        """Return the `stored` links as they are now, and all links of the service that are newer than the store."""
        links = {link.trace_id: link for link in stored}
        for newer in (self._committing, self.changed):
            links.update((link.trace_id, link) for link in newer.values() if link.service == service)
        return list(links.values())


def link_of(trace: Trace) -> ConversationLink:
    """Return the link of a trace, as if the trace were alone in its session.

    It has no digests if no messages join the trace to others.
    """
    user = trace.user_id or ""
    digests = trace.conversation or ConversationDigests()
    answered = bool(trace.turns) and trace.turns[-1].error is None
    follows, begins = digests.follows, digests.said
    if digests.begins is not None and user:
        # The same first words are another attempt only if the user is named: in an outage many users fail alike.
        follows, begins = digests.begins, begins if answered else digests.begins
    elif digests == ConversationDigests(reply=digests.reply):
        # Only the reply's id is known: this records a call once more without content. It joins the trace that has the
        # same reply with its words.
        follows, answered = digests.reply, False
    return ConversationLink(
        trace_id=trace.trace_id,
        session_id=trace.session_id or trace.trace_id,
        service=trace.service or "",
        started_at=trace.started_at,
        ended_at=trace.ended_at,
        named=trace.session_id,
        follows=_of_user(follows, user),
        said=_of_user(begins, user),
        reply=_of_user(digests.reply, user),
        calls=_of_user(digests.calls, user),
        answered=answered,
    )


def parent_of(link: ConversationLink, enders: Sequence[ConversationLink]) -> ConversationLink | None:
    """Return the trace that `link` continues, one of `enders`. These are the traces that end in what `link` follows.

    Return None if there is none, or if several end alike, so that none is certain.
    """
    earlier = [ender for ender in enders if ender.place < link.place and _may_be_one(link, ender)]
    # One that names the same session is surer than one that names none.
    same = [other for other in earlier if other.named is not None and other.named == link.named]
    earlier = same or earlier
    whole = [link for link in earlier if not link.is_second_record]
    if link.is_second_record:
        # It records the same call, so it began before the trace with the words ended.
        earlier = [other for other in whole if link.started_at <= other.ended_at]
    else:
        # A second record stands for the call only if nothing has the words.
        earlier = whole or earlier
    if earlier and all(link.is_attempt for link in earlier):
        latest = max(earlier, key=lambda link: link.place)
        return latest if link.started_at <= latest.ended_at + RETRY else None
    return earlier[0] if len(earlier) == 1 else None


def is_fork(
    link: ConversationLink,
    parent: ConversationLink,
    enders: Sequence[ConversationLink],
    rivals: Iterable[ConversationLink],
) -> bool:
    """Return whether another link continues `parent` before `link` does.

    `rivals` are the links that follow the same as `link`. A rival without an answer does not count, because it was
    tried again. A rival that names the parent's session comes before one that does not.
    """
    rank = _rank(link, parent)
    others = (rival for rival in rivals if rival.trace_id != link.trace_id and rival.answered)
    return any(_rank(other, parent) < rank and parent_of(other, enders) is parent for other in others)


def _rank(link: ConversationLink, parent: ConversationLink) -> tuple[bool, tuple[int, str]]:
    return parent.named is not None and link.named != parent.named, link.place


def _may_be_one(one: ConversationLink, other: ConversationLink) -> bool:
    return one.named is None or other.named is None or one.named == other.named


def _of_user(digest: bytes | None, user: str) -> bytes | None:
    """Return the digest combined with the user. So two named users are never taken for one another."""
    if digest is None or not user:
        return digest
    return blake2b(user.encode("utf-8", "surrogatepass") + b"\0" + digest, digest_size=len(digest)).digest()
