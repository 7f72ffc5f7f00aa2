"""What SQLite does for the statements of the pipeline: it reads the rows of a commit, however many others there are."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.news import no_events
from agenteval_collector.stores.erasing import forget_content
from agenteval_collector.stores.store import Store
from sqlalchemy import event

from otel_agenteval.finding import Severity
from otel_agenteval.outcome import JudgedPart, Method
from tests.integration.test_store import hex_id, record, score, session_update
from tests.support.clock import ManualClock
from tests.support.findings import finding
from tests.support.otlp import START

TRACES: Final = 3
EVERYTHING: Final = re.compile(
    r"SCAN (?!anon|json|CONSTANT|main\.said_index_config|\d)|\(tenant=\?(?: AND \w+[<>]\?)*\)$"
    r"|\(tenant=\? AND has_content=\?\)$"
)
"""Steps of a plan that read a whole table, or all that a tenant has in it."""
FEW: Final = re.compile(
    r"findings_uncounted|findings_told|judge_exchanges_by_age|judge_answers_by_age|outcomes_pending|problems_by_kind|autoindex_problems_1|outbox_by_time"
)
"""Indexes of what has to be done still, of what has a bound, or that are read up to a limit."""


@pytest.fixture
def said(tmp_path: Path) -> Iterator[tuple[Store, dict[str, Any]]]:
    """A store, and the statements that it has run, each with some values of its parameters."""
    store = Store(tmp_path / "agenteval.db", ManualClock(), events_of=no_events)
    statements: dict[str, Any] = {}

    def listen(_connection: Any, _cursor: Any, statement: str, values: Any, *_: object) -> None:
        statements[statement] = values

    for engine in (store._pipeline.engine, store._durable.engine, store.outside.engine):
        event.listen(engine, "before_cursor_execute", listen)
    yield store, statements
    store.shutdown()


def found(number: int) -> Any:
    return finding(
        kind="tool_failed", severity=Severity.ERROR, trace_id=hex_id(number), session_id="s", agent="planner",
        found_at=START + number, metadata={"shape": "it broke"},
    )  # fmt: skip


def commit(*numbers: int, revision: int = 1) -> Commit:
    known: Any = {"agent": "planner", "revision": revision, "effort": Effort(steps=1, seconds=1.0, usd=0.5)}
    judged: Any = {"name": "confidence", "method": Method.LLM, "part": JudgedPart.RANDOM, "threshold": 0.5}
    return Commit(
        traces=[record(number, findings=[found(number)], **known) for number in numbers],
        evaluations=[each for number in numbers for each in (score(number), score(number, **judged))],
        sessions={"s": session_update()},
    )


def test_the_pipeline_reads_what_it_is_about_and_nothing_else(
    tmp_path: Path, said: tuple[Store, dict[str, Any]]
) -> None:
    store, statements = said
    store.commit(commit(*range(1, TRACES + 1)))
    store.commit(commit(1, revision=2))
    store.known_traces([hex_id(1)])
    store.stored_place(hex_id(1))
    store.session("s")
    store.session_traces("s")
    store.neighbours("s", (START + 2, hex_id(2)), 7, 8)
    store.traces([hex_id(2)])
    store.says_the_same(record(2).view)
    store.parts("s")
    store.sampled_out("s", 10)
    store.pending_jobs(before=START)
    store.without_goal(["s"])
    store.session_revision("s")
    store.processes_in("s")
    store.turns.before("s", START + 2, hex_id(2))
    store.turns.going_on("s", (START + 2, hex_id(2)))
    store.turns.continuing("s", (START + 2, hex_id(2)))
    store.end_session("s")
    store.finalize(["s"])
    store.deletions.erase([hex_id(3)], [])
    with store._pipeline.writing() as connection:
        assert forget_content(connection, before=2 * START, limit=10) == 2
    assert len(statements) > 20
    steps = plans(tmp_path, statements)
    everything = {each: step for each, of in steps.items() for step in of if EVERYTHING.search(step)}
    assert not {each: step for each, step in everything.items() if not FEW.search(step)}


def test_a_look_for_alarms_reads_what_is_new_and_nothing_else(
    tmp_path: Path, said: tuple[Store, dict[str, Any]]
) -> None:
    store, statements = said
    store.commit(commit(*range(1, TRACES + 1)))
    statements.clear()
    assert [trace.trace_id for trace in store.alarms.scored(0, 2**62, 10)] == [hex_id(n) for n in range(1, TRACES + 1)]
    assert store.alarms.loops(0, 2**62, 10) == []
    assert [occurrence.trace_id for occurrence in store.alarms.new_problems(0, 10)] == [hex_id(TRACES)]
    steps = [step for of in plans(tmp_path, statements).values() for step in of if EVERYTHING.search(step)]
    assert [step for step in steps if not FEW.search(step)] == []


def test_agreement_reads_the_scores_with_labels_only(tmp_path: Path, said: tuple[Store, dict[str, Any]]) -> None:
    store, statements = said
    store.commit(commit(*range(1, TRACES + 1)))
    statements.clear()
    with store.snapshot() as snapshot:
        assert snapshot.labelled(None) == []
    reads = [step for of in plans(tmp_path, statements).values() for step in of if " outcomes " in step]
    assert reads
    assert {step.partition(" (")[2] for step in reads} == {"tenant=? AND subject=? AND subject_id=?)"}


def plans(folder: Path, statements: dict[str, Any]) -> dict[str, list[str]]:
    """The steps by which SQLite works off each statement."""
    with closing(sqlite3.connect(f"file:{folder / 'agenteval.db'}?mode=ro", uri=True)) as connection:
        return {
            statement: [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
            for statement, values in statements.items()
            if re.match("SELECT|INSERT|UPDATE|DELETE", statement)
        }
