"""Verdicts in a real store: each once, whoever finds it."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.clock import ManualClock
from agenteval_collector.errors import Unavailable
from agenteval_collector.loops import Announcer
from agenteval_collector.loops.announcing import NAMED_WITHIN
from agenteval_collector.pipeline import FoundVerdict, TraceNames, VerdictKey
from agenteval_collector.stores import Store
from agenteval_collector.stores.store import TENANT
from agenteval_collector.stores.verdicts import MAX_SHOWN, read_session_verdicts, read_verdicts

from tests.support.plans import plan_of
from tests.support.verdicts import SPAN_ID, TRACE_ID, found_verdict


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "agenteval.db", ManualClock())
    yield made
    made.shutdown()


def keep(store: Store, *found: FoundVerdict, complete: Sequence[TraceNames] = ()) -> list[FoundVerdict]:
    """What is new by that."""
    told, _ = store.verdicts.keep(found, complete)
    return [each.found for each in told if each.before is None]


def announcer_of(store: Store, told: list[FoundVerdict]) -> Announcer:
    """What it tells goes to `told`."""
    return Announcer(
        store.verdicts, lambda news: told.extend(each.found for each in news), lambda _: None, ManualClock()
    )


def unnamed(**changes: Any) -> FoundVerdict:
    """Found before anything told whose the trace is."""
    return replace(found_verdict(session_id=TRACE_ID, **changes), agent=None)


def test_a_verdict_is_new_once_by_trace_kind_and_span(store: Store) -> None:
    first = found_verdict()
    others = [found_verdict(kind="cycle"), found_verdict(span_id="0" * 16), found_verdict(trace_id="1" * 32)]
    assert keep(store, first, first) == [first]
    assert keep(store, found_verdict(reason="said otherwise"), *others) == others
    assert keep(store, *others) == []


@pytest.mark.parametrize(
    ("beside", "is_new"),
    [
        pytest.param(None, True, id="who does not count otherwise"),
        pytest.param({"0" * 16}, False, id="the same loop, on another span"),
        pytest.param({"0" * 16, SPAN_ID}, True, id="another loop, found by who found the first"),
    ],
)
def test_a_loop_that_is_counted_otherwise_is_not_another_one(
    store: Store, beside: set[str] | None, is_new: bool
) -> None:
    keep(store, found_verdict())
    again = replace(found_verdict(span_id="0" * 16), beside=None if beside is None else frozenset(beside))
    assert bool(keep(store, again)) == is_new
    other_kind = replace(again, verdict=replace(again.verdict, kind="cycle"))
    assert keep(store, other_kind) == [other_kind]


def test_whose_a_verdict_is_may_become_known_bit_by_bit(store: Store) -> None:
    steps = [
        unnamed(),
        found_verdict(session_id=TRACE_ID),
        replace(found_verdict(session_id="s-2"), agent="another"),
        unnamed(),
    ]
    told = [store.verdicts.keep([step]) for step in steps]
    names = [[(each.found.verdict.session_id, each.found.agent) for each in news] for news, _ in told]
    assert names == [[(TRACE_ID, None)], [(TRACE_ID, "planner")], [("s-2", "planner")], []]
    before = [each.before for news, _ in told for each in news]
    assert [each and (each.verdict.session_id, each.agent) for each in before] == [
        None, (TRACE_ID, None), (TRACE_ID, "planner"),
    ]  # fmt: skip
    assert [len(counts) for _, counts in told] == [0, 1, 0, 0]
    assert store.verdicts.overdue(100) == []


def test_a_complete_trace_has_the_last_word_on_its_session(store: Store) -> None:
    store.verdicts.keep([found_verdict(session_id="s-2"), unnamed(kind="cycle"), found_verdict(trace_id="1" * 32)])
    complete = [TraceNames(TRACE_ID, "s-3", "guide"), TraceNames("2" * 32, "s-4", "guide")]
    told, counts = store.verdicts.keep([], complete)
    assert {(each.found.verdict.kind, each.found.verdict.session_id, each.found.agent) for each in told} == {
        ("identical_call", "s-3", "planner"), ("cycle", "s-3", "guide"),
    }  # fmt: skip
    assert [each.verdict.kind for each in counts] == ["cycle"]
    assert store.verdicts.keep([], complete) == ([], [])
    # What could not be read this time takes nothing back.
    assert store.verdicts.keep([], [TraceNames(TRACE_ID, TRACE_ID, None)]) == ([], [])


def test_what_nobody_names_counts_after_a_while_and_once(store: Store) -> None:
    clock = ManualClock()
    counted: list[FoundVerdict] = []
    announcer = Announcer(store.verdicts, lambda _: None, counted.extend, clock)
    announcer.announce([replace(unnamed(), found_at=clock.now())])
    for _ in range(3):
        clock.advance(NAMED_WITHIN / 2.5)
        announcer.count_overdue()
        announcer.count_overdue()
    assert [(each.verdict.kind, each.agent) for each in counted] == [("identical_call", None)]
    announcer.announce([found_verdict()])
    assert len(counted) == 1


def test_what_counts_is_unexported_until_its_event_has_left(store: Store) -> None:
    early, *late = [replace(found_verdict(span_id=f"{number:016x}"), found_at=number) for number in (1, 5, 7)]
    keep(store, late[1], early, late[0], replace(unnamed(kind="cycle"), found_at=8))
    assert [each.found_at for each in store.verdicts.unexported(5)] == [5, 7]
    store.verdicts.exported([VerdictKey(TRACE_ID, "identical_call", late[0].verdict.span_id)])
    assert [each.found_at for each in store.verdicts.unexported(0)] == [1, 7]
    # It counts without a name too, and what is found again is no other loop.
    store.verdicts.overdue(9)
    keep(store, *late)
    assert [each.found_at for each in store.verdicts.unexported(5)] == [7, 8]


def test_what_is_kept_is_shown_as_it_was_found_and_at_most_the_newest(store: Store) -> None:
    many = [replace(found_verdict(span_id=f"{number:016x}"), found_at=number) for number in range(1, MAX_SHOWN + 11)]
    keep(store, *many)
    with store.engine.connect() as connection:
        shown = read_verdicts(connection, TENANT, TRACE_ID)
    assert [each["span_id"] for each in shown] == [each.verdict.span_id for each in many[10:]]
    assert shown[0] == {
        "name": "loop_detection",
        "kind": "identical_call",
        "mode": "alarm",
        "span_id": f"{11:016x}",
        "agent": "planner",
        "reason": found_verdict().verdict.reason,
        "found_at": "1970-01-01T00:00:00.000000Z",
        "metadata": {"tool": "search", "repetitions": 3},
    }


def test_the_verdicts_of_a_session_are_looked_for_on_its_traces_alone(store: Store) -> None:
    with store.engine.connect() as connection:
        plan = plan_of(store.engine, lambda: read_session_verdicts(connection, TENANT, "s-1", []))
    [of_verdicts] = [step for step in plan if "verdicts" in step]
    assert "trace_id=?" in of_verdicts, plan


def test_threads_that_find_the_same_tell_it_once(store: Store) -> None:
    told: list[FoundVerdict] = []
    announcer = Announcer(
        store.verdicts, lambda news: told.extend(each.found for each in news), lambda _: None, ManualClock()
    )
    found = [found_verdict(span_id=f"{number:016x}") for number in range(20)]
    threads = [threading.Thread(target=lambda: [announcer.announce([each]) for each in found]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.verdict.span_id for each in told) == [each.verdict.span_id for each in found]


def test_nobody_is_told_of_what_could_not_be_kept(store: Store, tmp_path: Path) -> None:
    told: list[FoundVerdict] = []
    announcer = Announcer(
        store.verdicts, lambda news: told.extend(each.found for each in news), lambda _: None, ManualClock()
    )
    with closing(sqlite3.connect(tmp_path / "agenteval.db", isolation_level=None)) as connection:
        connection.execute("ALTER TABLE verdicts RENAME TO away")
        with pytest.raises(Unavailable):
            announcer.announce([found_verdict()])
        assert told == []
        connection.execute("ALTER TABLE away RENAME TO verdicts")
    announcer.announce([found_verdict()])
    assert told == [found_verdict()]
