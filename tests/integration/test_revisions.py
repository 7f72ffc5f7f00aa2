"""Spans that come late for a trace that was scored make its next revision, in a real collector."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.model.news import no_events
from agenteval_collector.model.senders import Awaited, Habit, Sender
from agenteval_collector.stores.store import Store
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.otlp import span, span_id, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

ID = trace_id(1).hex()


def unmarked(number: int, asked: str = "hi", answered: str = "hello", *, parent: int = 0) -> Span:
    """A whole trace in one span, as a plain sender sends it."""
    made = turn(number, asked, answered, session="s")
    del made.attributes[-1]
    made.parent_span_id = span_id(parent) if parent else b""
    made.flags = 0x101
    return made


def query(folder: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "agenteval.db")) as connection:
        return connection.execute(statement).fetchall()


EVALUATED = "SELECT name, status, score, evaluated_at FROM outcomes WHERE subject = 'trace' ORDER BY name"
"""When each outcome was found: another time where it was found again."""


def test_a_revision_that_reads_the_same_keeps_its_outcomes_as_they_are(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(unmarked(1)))
        before = collector.scored(ID)
        evaluated = query(tmp_path, EVALUATED)
        late = span(1, 2, parent=1)
        late.start_time_unix_nano = late.end_time_unix_nano = unmarked(1).start_time_unix_nano
        collector.send(traces(late))
        after = collector.scored(ID, revision=2)
        assert query(tmp_path, EVALUATED) == evaluated
        assert query(tmp_path, "SELECT DISTINCT revision FROM outcomes WHERE subject = 'trace'") == [(2,)]
        assert (before["span_count"], after["span_count"], after["outcomes"]) == (1, 2, before["outcomes"])
        assert (after["status"], after["complete"], after["session_id"]) == ("scored", True, "s")


def test_a_revision_that_reads_differently_is_scored_again(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(unmarked(1)))
        collector.scored(ID)
        evaluated = query(tmp_path, EVALUATED)
        collector.send(
            traces(span(1, 2, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="search"))
        )
        assert [call["name"] for call in collector.scored(ID, revision=2)["tools_called"]] == ["search"]
        assert {row[3] for row in query(tmp_path, EVALUATED)}.isdisjoint(row[3] for row in evaluated)


def test_after_a_restart_a_late_span_joins_its_trace_from_the_log(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(unmarked(1)))
        collector.scored(ID)
    with RunningCollector(tmp_path) as collector:
        for number in (2, 3):
            collector.send(traces(span(1, number, parent=1)))
            document = collector.scored(ID, revision=number)
            assert (document["span_count"], document["output"]) == (number, "hello")


def test_what_was_learned_of_a_sender_is_told_and_survives_a_restart(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        for number in (1, 2):
            collector.send(traces(unmarked(number, parent=7)))
            document = collector.scored(trace_id(number).hex())
            assert (document["closing"]["by"], document["partial"]) == ("silence", True)
        eventually(lambda: query(tmp_path, "SELECT history FROM sender_habits") == [("--",)])
    with RunningCollector(tmp_path, assembly={"silence": 3600}) as collector:
        collector.send(traces(unmarked(3, parent=7)))
        document = collector.scored(trace_id(3).hex())
        assert (document["closing"]["by"], document["partial"]) == ("root", False)
        assert document["closing"]["senders"] == [
            "the local parent of invoke_agent spans of shop (lib) never comes: it came in 0 of its last 2 traces"
        ]


def test_nothing_of_a_trace_is_counted_before_its_root_has_come(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, assembly={"silence": 3600}) as collector:
        collector.send(traces(span(1, 2, parent=1, gen_ai__operation__name="chat")))
        eventually(lambda: collector.get(f"/api/v1/traces/{ID}"))
        collector.send(traces(unmarked(2)))
        collector.scored(trace_id(2).hex())
        running = collector.get(f"/api/v1/traces/{ID}")
        assert (running["status"], running["complete"], running["outcomes"], running["closing"]) == (
            "running", False, [], None
        )  # fmt: skip
        assert query(tmp_path, "SELECT DISTINCT trace_id FROM outcomes WHERE subject = 'trace'") == [
            (trace_id(2).hex(),)
        ]
        collector.send(traces(unmarked(1)))
        assert collector.scored(ID)["revision"] == 1


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "agenteval.db", ManualClock(), events_of=no_events)
    yield made
    made.shutdown()


def test_habits_are_kept_changed_and_forgotten(store: Store) -> None:
    parent = Habit(Sender("default", "shop", "lib", "chat"), Awaited.PARENT).digest
    records = Habit(Sender("default", "shop", "lib", "chat"), Awaited.LOGS).digest
    store.habits.save({parent: "+", records: "-"})
    store.habits.save({parent: "+-"})
    assert store.habits.load() == {parent: "+-", records: "-"}
    store.habits.save({records: ""})
    assert store.habits.load() == {parent: "+-"}
