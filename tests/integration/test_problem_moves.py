"""Problems that people merge and split, in a real store: what it counts, later and undone."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.news import no_events
from agenteval_collector.model.problem import OTHER
from agenteval_collector.runtime.errors import InvalidRequest, NotFound
from agenteval_collector.stores import problem_moves, schema
from agenteval_collector.stores import problems as limits
from agenteval_collector.stores.store import Store
from sqlalchemy import select

from tests.integration.test_problem_store import NOW, failing, problems, record
from tests.support.clock import ManualClock
from tests.support.databases import database_in
from tests.support.store_oracle import added_up, kept_sums

pytestmark = pytest.mark.databases


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    made = Store(database_in(tmp_path), clock, events_of=no_events)
    yield made
    made.shutdown()


def fail(store: Store, trace: int, shape: str, text: str = "it failed") -> None:
    commit = Commit()
    commit.traces.append(record(trace, [failing(trace, shape, reason=text, session=trace)], session=trace))
    store.commit(commit)


def shapes(store: Store) -> dict[str, int]:
    """The traces of each problem, by its title."""
    return {problem.key.title: problem.traces for problem in problems(store)}


def ids(store: Store) -> dict[str, str]:
    return {problem.key.title: problem.key.problem_id for problem in problems(store)}


def moves(store: Store) -> list[Any]:
    with store.snapshot() as records:
        return [*records.connection.execute(select(schema.problem_moves))]


@pytest.fixture
def two(store: Store) -> dict[str, str]:
    """The ids of two problems, of three traces and of one."""
    for trace, shape in enumerate(("timeout", "timeout", "timeout", "timed out"), 1):
        fail(store, trace, shape)
    return ids(store)


def test_a_merged_problem_is_part_of_the_other_one_now_and_later(store: Store, two: dict[str, str]) -> None:
    into, part = two["search: timeout"], two["search: timed out"]
    store.problem_moves.merge(part, into, "ann")
    [whole] = problems(store)
    assert (whole.key.problem_id, whole.traces, whole.sessions, list(whole.merged)) == (into, 4, 4, [part])
    fail(store, 9, "timed out")
    [whole] = problems(store)
    assert whole.traces == 5


@pytest.mark.parametrize("which", ["the whole", "the part"])
def test_a_merge_can_be_taken_apart(store: Store, two: dict[str, str], which: str) -> None:
    before = kept_sums(store)
    into, part = two.values()
    store.problem_moves.merge(part, into, None)
    assert len(problems(store)) == 1
    store.problem_moves.merge(part, into, None)  # Once more changes nothing.
    store.problem_moves.take_apart(into if which == "the whole" else part)
    with pytest.raises(InvalidRequest, match="nothing was merged"):
        store.problem_moves.take_apart(into)
    assert kept_sums(store) == before


def test_what_was_merged_into_a_problem_goes_with_it(store: Store, two: dict[str, str]) -> None:
    fail(store, 5, "closed")
    one, two_, three = ids(store).values()
    store.problem_moves.merge(one, two_, None)
    store.problem_moves.merge(two_, three, None)
    [whole] = problems(store)
    assert (whole.key.problem_id, whole.traces, sorted(whole.merged)) == (three, 5, sorted([one, two_]))
    with pytest.raises(NotFound):
        store.problem_moves.merge(three, one + "0", None)
    store.problem_moves.take_apart(three)
    assert set(ids(store).values()) == {one, two_, three}


def test_a_problem_is_split_into_its_texts_and_put_together_again(store: Store) -> None:
    for trace, text in enumerate(("no order 1", "no order 1", "no order 2"), 1):
        fail(store, trace, "no order …", text)
    before = kept_sums(store)
    [whole] = ids(store).values()
    store.problem_moves.split(whole, "ann")
    store.problem_moves.split(whole, "ann")  # Once more changes nothing.
    assert shapes(store) == {"no order 1": 2, "no order 2": 1}
    assert {problem.key.split_from for problem in problems(store)} == {whole}
    fail(store, 4, "no order …", "no order 2")
    assert shapes(store) == {"no order 1": 2, "no order 2": 2}
    one, two = ids(store).values()
    store.problem_moves.merge(one, two, None)
    assert [problem.traces for problem in problems(store)] == [4]
    store.problem_moves.merge(two, whole, None)
    fail(store, 4, "gone")
    assert kept_sums(store)["problems"][whole][0] == before["problems"][whole][0] == 3


def test_it_outlives_the_process_and_the_last_occurrence(tmp_path: Path, clock: ManualClock) -> None:
    made = Store(database_in(tmp_path), clock, events_of=no_events)
    fail(made, 1, "timeout")
    fail(made, 2, "timed out")
    into, part = ids(made).values()
    made.problem_moves.merge(part, into, None)
    for trace in (1, 2):
        commit = Commit()
        commit.traces.append(record(trace, revision=2, session=trace))
        made.commit(commit)
    assert not problems(made)
    made.shutdown()
    again = Store(database_in(tmp_path), clock, events_of=no_events)
    try:
        fail(again, 3, "timeout")
        fail(again, 4, "timed out")
        [whole] = problems(again)
        assert (whole.key.problem_id, whole.traces) == (into, 2)
    finally:
        again.shutdown()


def test_what_cannot_be_merged_or_split_is_refused(
    store: Store, two: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    into, part = two.values()
    for attempt in ((part, part), (part, "0" * 16), ("0" * 16, part)):
        with pytest.raises((InvalidRequest, NotFound)):
            store.problem_moves.merge(*attempt, None)
    with pytest.raises(NotFound):
        store.problem_moves.split("0" * 16, None)
    store.problem_moves.split(into, None)
    [text] = [problem for problem in problems(store) if problem.key.split_from]
    with pytest.raises(InvalidRequest, match="single text"):
        store.problem_moves.split(text.key.problem_id, None)
    monkeypatch.setattr(problem_moves, "MOST_MOVES", 1)
    with pytest.raises(InvalidRequest, match="take some apart"):
        store.problem_moves.merge(part, text.key.problem_id, None)


def test_what_has_no_problem_of_its_own_is_not_merged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_SHAPES", 1)
    fail(store, 1, "timeout")
    fail(store, 2, "closed")
    others = next(problem for problem in problems(store) if problem.key.shape == OTHER)
    one = next(problem for problem in problems(store) if problem.key.shape != OTHER)
    with pytest.raises(InvalidRequest, match="no problem of its own"):
        store.problem_moves.merge(others.key.problem_id, one.key.problem_id, None)


def test_a_text_that_names_a_problem_goes_with_its_traces(store: Store) -> None:
    for trace in (1, 2, 3):
        fail(store, trace, "no order …", f"no order of mia-{trace}")
    [whole] = ids(store).values()
    store.problem_moves.split(whole, None)
    texts = ids(store)
    store.problem_moves.merge(texts["no order of mia-1"], texts["no order of mia-2"], None)
    store.deletions.forget_content(NOW + 1, 10)
    assert not [title for title in shapes(store) if "mia" in title]
    assert "mia" not in str(moves(store))


def test_a_problem_of_many_traces_is_moved_as_a_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem_moves, "BATCH", 3)
    for trace in range(1, 12):
        fail(store, trace, "timeout" if trace < 11 else "timed out")
    into, part = ids(store)["search: timed out"], ids(store)["search: timeout"]
    store.problem_moves.merge(part, into, None)
    assert [problem.traces for problem in problems(store)] == [11]


@pytest.mark.parametrize("seed", range(8))
def test_the_sums_are_those_of_a_store_without_moves_once_all_is_undone(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    for trace in range(1, 13):
        shape = chance.choice("abc")
        fail(store, trace, shape, f"{shape} {chance.randrange(2)}")
    for trace in range(13, 25):
        listed = problems(store)
        if len(listed) > 1 and chance.random() < 0.7:
            part, into = chance.sample(listed, 2)
            store.problem_moves.merge(part.key.problem_id, into.key.problem_id, None)
        elif (one := chance.choice(listed)).key.split_from is None:
            store.problem_moves.split(one.key.problem_id, None)
        shape = chance.choice("abc")
        fail(store, trace, shape, f"{shape} {chance.randrange(2)}")
        assert sum(problem.traces for problem in problems(store)) == trace
    for _ in range(40):
        moved = next((each for each in problems(store) if each.merged or each.key.split_from), None)
        if moved is None:
            break
        if moved.merged:
            store.problem_moves.take_apart(moved.key.problem_id)
        elif moved.key.split_from is not None:
            store.problem_moves.merge(moved.key.problem_id, moved.key.split_from, None)
    kept, slow = kept_sums(store), added_up(store)
    assert kept["problems"] == slow["problems"]
