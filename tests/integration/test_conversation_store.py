"""The links that join traces to conversations are kept in the store's file, bounded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.conversation_links import ConversationLink
from agenteval_collector.model.news import no_events
from agenteval_collector.stores import conversations as stored
from agenteval_collector.stores.store import Store

from tests.support.clock import ManualClock
from tests.support.databases import database_in

pytestmark = pytest.mark.databases


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    opened = Store(database_in(tmp_path), clock, events_of=no_events)
    yield opened
    opened.shutdown()


def link(trace_id: str, at: int = 1, **changes: Any) -> ConversationLink:
    return ConversationLink(trace_id=trace_id, session_id=trace_id, service="desk", started_at=at, **changes)


def commit(store: Store, *links: ConversationLink) -> None:
    store.commit(Commit(links={each.trace_id: each for each in links}))


def test_a_link_is_found_by_each_of_its_ends_in_its_service(store: Store) -> None:
    first = link("a", said=b"said", reply=b"reply", calls=b"calls", answered=True)
    commit(store, first)
    for end in first.ends:
        assert store.conversations.ending("desk", end, None) == [first]
        assert store.conversations.ending("shop", end, None) == []
    assert store.conversations.ending("desk", b"other", None) == []
    assert (store.conversations.link("a"), store.conversations.link("b")) == (first, None)


def test_of_many_that_end_alike_those_of_the_same_name_are_found_first(store: Store) -> None:
    others = [link(f"o{at}", at, said=b"said", named=f"n{at}") for at in range(stored.MOST + 10)]
    nameless = link("nameless", 99, said=b"said")
    commit(store, *others, nameless)
    found = store.conversations.ending("desk", b"said", others[-1].named)
    assert (list(found[:2]), len(found)) == ([others[-1], nameless], stored.MOST)


def test_followers_are_found_by_time_and_name(store: Store) -> None:
    first, second = link("a", 1, follows=b"x", named="i"), link("b", 2, follows=b"y")
    third = link("c", 3, follows=b"x", named="j")
    commit(store, third, second, first, link("d", 2, follows=b"z"))

    def found(named: str | None = None, since: int = 0, until: int = 9) -> list[ConversationLink]:
        return list(store.conversations.following("desk", [b"x", b"y"], named, since=since, until=until))

    assert found() == [first, second, third]
    assert found(since=2, until=2) == [second]
    assert found("i") == [first, second]


def test_whether_all_of_a_service_name_their_sessions_is_known(store: Store) -> None:
    commit(store, link("a", named="s"), ConversationLink(trace_id="b", session_id="b", service="shop", started_at=1))
    assert (store.conversations.has_unnamed("desk"), store.conversations.has_unnamed("shop")) == (False, True)


def test_a_link_is_replaced_and_survives_a_restart(store: Store, tmp_path: Path, clock: ManualClock) -> None:
    commit(store, link("a", said=b"said"))
    changed = link("a", said=b"other", parent="z", answered=True)
    commit(store, changed)
    store.shutdown()
    again = Store(database_in(tmp_path), clock, events_of=no_events)
    assert again.conversations.link("a") == changed
    assert again.conversations.ending("desk", b"said", None) == []
    again.shutdown()


def test_what_is_too_old_is_forgotten(store: Store, clock: ManualClock) -> None:
    commit(store, link("old"))
    clock.advance(stored.MAX_AGE / 1e9 + 1)
    commit(store, link("new"))
    assert store.conversations.link("old") is None
    assert store.conversations.link("new") is not None


def test_of_a_service_with_too_many_the_oldest_are_forgotten(store: Store) -> None:
    commit(store, *(ConversationLink(trace_id="kept", session_id="kept", service="shop", started_at=1),))
    with store.outside.writing() as connection:
        for number in range(6):
            stored.write_links(connection, [link(str(number))], now=number + 1)
        stored.trim_links(connection, now=10, most=4)
    kept = [name for name in ("0", "1", "2", "3", "4", "5", "kept") if store.conversations.link(name)]
    assert kept == ["2", "3", "4", "5", "kept"]
