"""Look-ups of links that are repeated before anything is kept that rests on them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ParamSpec, TypeVar

from agenteval_collector.model.links import Link, LookUp
from agenteval_collector.sessions.conversations.ports import LinkStore

P = ParamSpec("P")
T = TypeVar("T")


class NotedLinks:
    """A `LinkStore` that notes what is looked up, and what that gave."""

    def __init__(self, store: LinkStore, noted: list[LookUp]) -> None:
        self._store = store
        self._noted = noted

    def link(self, trace_id: str) -> Link | None:
        return self._look_up(self._store.link, trace_id)

    def has_unnamed(self, service: str) -> bool:
        return self._look_up(self._store.has_unnamed, service)

    def ending(self, service: str, key: bytes, named: str | None) -> Sequence[Link]:
        return self._look_up(self._store.ending, service, key, named)

    def following(
        self, service: str, keys: Sequence[bytes], named: str | None, *, since: int, until: int
    ) -> Sequence[Link]:
        return self._look_up(self._store.following, service, keys, named, since=since, until=until)

    def _look_up(self, of: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        found = of(*args, **kwargs)
        self._noted.append(LookUp(partial(of, *args, **kwargs), found))
        return found
