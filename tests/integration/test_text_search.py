"""Finding what was said: the index leads to what looking at every trace would find."""

from pathlib import Path

import pytest
from agenteval_collector.stores.schema import own, sessions, traces
from agenteval_collector.stores.session_list import FEW, has_text
from agenteval_collector.stores.store import Store
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from tests.integration.test_session_list import Listed

pytestmark = pytest.mark.databases

WORDS = st.text(st.sampled_from('ab "%_*ß\nИ'), max_size=8)


def found(store: Store, text: str, few: int = FEW) -> list[str]:
    with store.outside.snapshot() as connection:
        query = select(sessions.c.session_id).where(own(sessions), has_text(connection, text, few=few))
        return sorted(connection.execute(query).scalars())


@pytest.mark.parametrize("few", [pytest.param(0, id="in many traces"), pytest.param(FEW, id="in few traces")])
@settings(max_examples=25, deadline=None)
@given(said=st.lists(WORDS, min_size=1, max_size=8), asked=st.lists(WORDS.filter(bool), min_size=1, max_size=5))
def test_what_was_said_is_found_and_nothing_else(
    few: int, tmp_path_factory: pytest.TempPathFactory, said: list[str], asked: list[str]
) -> None:
    listed = Listed(tmp_path_factory.mktemp("s"))
    for number, text in enumerate(said):
        listed.add(number, text=text)
    for text in asked:
        having = [f"s{number:02}" for number, each in enumerate(said) if text.casefold() in each.casefold()]
        assert found(listed.store, text, few) == having
    listed.store.shutdown()


def test_a_trace_that_says_something_else_is_found_by_that_alone(tmp_path: Path) -> None:
    listed = Listed(tmp_path)
    listed.add(1, text="the first words")
    listed.add(1, text="others, said later")
    assert found(listed.store, "first words") == []
    assert found(listed.store, "said later") == ["s01"]
    with listed.store.outside.writing() as connection:
        connection.execute(delete(traces).where(own(traces)))
    assert found(listed.store, "said later") == []
    listed.store.shutdown()


def test_a_long_text_and_one_that_a_query_cannot_hold_are_found(tmp_path: Path) -> None:
    listed = Listed(tmp_path)
    listed.add(1, text="odd\0" + "long " * 200 + "and\0even")
    listed.add(2, text="long " * 200)
    assert found(listed.store, "long " * 150) == ["s01", "s02"]
    assert found(listed.store, "and\0even") == ["s01"]
    assert found(listed.store, "even") == ["s01"]
    listed.store.shutdown()
