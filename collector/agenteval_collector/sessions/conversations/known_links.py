"""The links of a service as they are now: those of the store, those of the commit, and later changes.

If there are several processes, each notes its look-ups. They are repeated before anything is stored that rests on them.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, ParamSpec, TypeVar

from agenteval_collector.model.conversation_links import ConversationLink, LinkLookUp
from agenteval_collector.sessions.conversations.link_rules import is_fork, parent_of
from agenteval_collector.sessions.conversations.ports import LinkStore

MAX_MOVED: Final = 1000
"""The most traces that move to another session at once. The rest of a longer chain stays."""

END_OF_TIME: Final = 2**63 - 1
"""The latest start of a trace, in nanoseconds since the Unix epoch."""


class KnownLinks:
    """The links of the store, overlaid with those of the commit and with later changes (`changed`)."""

    def __init__(self, store: LinkStore, committing: dict[str, ConversationLink]) -> None:
        self._store = store
        self._committing = committing
        self.changed: dict[str, ConversationLink] = {}

    def put(self, link: ConversationLink) -> None:
        self.changed[link.trace_id] = link

    def link(self, trace_id: str) -> ConversationLink | None:
        return self.changed.get(trace_id) or self._committing.get(trace_id) or self._store.link(trace_id)

    def parent(self, link: ConversationLink) -> ConversationLink | None:
        """Return the trace that a link continues in its conversation. Return None if no trace is certain."""
        key = link.follows
        if key is None:
            return None
        enders = self._now(self._store.ending(link.service, key, link.named), link.service)
        # Newer forms of links may not end so any more, and `_now` adds all newer links of the service.
        enders = [each for each in enders if key in each.ends]
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
            if any(each.named is not None for each in later):
                same = list(link.keys)
            for each in (*later, *self._following(link.service, same, until=link.started_at)):
                found[each.trace_id] = each
        return [each for each in found.values() if each.trace_id != links[0].trace_id]

    def chain(self, first: ConversationLink) -> tuple[list[ConversationLink], list[ConversationLink]]:
        """Return two lists: `first` and the links behind it that name no session, and the next links that name one."""
        chain, naming = [first], list[ConversationLink]()
        for link in chain:  # The list grows while it is read.
            if len(chain) >= MAX_MOVED:
                break
            behind = self._following(link.service, link.ends, since=link.started_at)
            behind = [each for each in behind if each.parent == link.trace_id]
            chain += [each for each in behind if each.named is None]
            naming += [each for each in behind if each.named is not None]
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
        found = self._now(self._store.following(service, keys, named, since=since, until=until), service)
        return [each for each in found if each.follows in keys and since <= each.started_at <= until]

    def _now(self, stored: Iterable[ConversationLink], service: str) -> list[ConversationLink]:
        """Return the `stored` links as they are now, and all links of the service that are newer than the store."""
        links = {each.trace_id: each for each in stored}
        for newer in (self._committing, self.changed):
            links.update((each.trace_id, each) for each in newer.values() if each.service == service)
        return list(links.values())


P = ParamSpec("P")
T = TypeVar("T")


class NotedLinks:
    """A `LinkStore` that notes each look-up and its result."""

    def __init__(self, store: LinkStore, noted: list[LinkLookUp]) -> None:
        self._store = store
        self._noted = noted

    def link(self, trace_id: str) -> ConversationLink | None:
        return self._look_up(self._store.link, trace_id)

    def has_unnamed(self, service: str) -> bool:
        return self._look_up(self._store.has_unnamed, service)

    def ending(self, service: str, key: bytes, named: str | None) -> Sequence[ConversationLink]:
        return self._look_up(self._store.ending, service, key, named)

    def following(
        self, service: str, keys: Sequence[bytes], named: str | None, *, since: int, until: int
    ) -> Sequence[ConversationLink]:
        return self._look_up(self._store.following, service, keys, named, since=since, until=until)

    def _look_up(self, of: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        found = of(*args, **kwargs)
        self._noted.append(LinkLookUp(partial(of, *args, **kwargs), found))
        return found
