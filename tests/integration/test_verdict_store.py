"""Verdicts in a real store: each once, whoever finds it."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from agenteval_collector.clock import ManualClock
from agenteval_collector.errors import Unavailable
from agenteval_collector.loops import Announcer
from agenteval_collector.pipeline import FoundVerdict
from agenteval_collector.stores import Store
from agenteval_collector.stores.store import TENANT
from agenteval_collector.stores.verdicts import MAX_SHOWN, read_verdicts

from tests.support.verdicts import SPAN_ID, TRACE_ID, found_verdict


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "agenteval.db", ManualClock())
    yield made
    made.shutdown()


def test_a_verdict_is_new_once_by_trace_kind_and_span(store: Store) -> None:
    first = found_verdict()
    others = [found_verdict(kind="cycle"), found_verdict(span_id="0" * 16), found_verdict(trace_id="1" * 32)]
    assert store.verdicts.keep([first, first]) == [first]
    assert store.verdicts.keep([found_verdict(reason="said otherwise"), *others]) == others
    assert store.verdicts.known(TRACE_ID) == {
        ("identical_call", SPAN_ID),
        ("cycle", SPAN_ID),
        ("identical_call", "0" * 16),
    }
    assert store.verdicts.known("2" * 32) == set()


def test_what_is_kept_is_shown_as_it_was_found_and_at_most_the_newest(store: Store) -> None:
    many = [replace(found_verdict(span_id=f"{number:016x}"), found_at=number) for number in range(1, MAX_SHOWN + 11)]
    store.verdicts.keep(many)
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


def test_threads_that_find_the_same_tell_it_once(store: Store) -> None:
    told: list[FoundVerdict] = []
    announcer = Announcer(store.verdicts, told.extend)
    found = [found_verdict(span_id=f"{number:016x}") for number in range(20)]
    threads = [threading.Thread(target=lambda: [announcer.announce([each]) for each in found]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.verdict.span_id for each in told) == [each.verdict.span_id for each in found]


def test_nobody_is_told_of_what_could_not_be_kept(store: Store, tmp_path: Path) -> None:
    told: list[FoundVerdict] = []
    announcer = Announcer(store.verdicts, told.extend)
    with closing(sqlite3.connect(tmp_path / "agenteval.db", isolation_level=None)) as connection:
        connection.execute("ALTER TABLE verdicts RENAME TO away")
        with pytest.raises(Unavailable):
            announcer.announce([found_verdict()])
        assert told == []
        connection.execute("ALTER TABLE away RENAME TO verdicts")
    announcer.announce([found_verdict()])
    assert told == [found_verdict()]
