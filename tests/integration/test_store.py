import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.app.offline import NothingRuns
from agenteval_collector.app.scoring import reliability_reports
from agenteval_collector.config.settings import Settings
from agenteval_collector.model.commit import Commit, ScoredTrace
from agenteval_collector.model.judge_jobs import Spend
from agenteval_collector.model.news import no_events
from agenteval_collector.model.runs import RunReport
from agenteval_collector.model.session_filter import SessionFilter
from agenteval_collector.model.sessions import SessionState, SessionUpdate, StoredPlace
from agenteval_collector.model.trace_view import view_of
from agenteval_collector.runtime.errors import InvalidRequest, PermanentError, Unavailable
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.stores.engines.sqlite import SqliteFile
from agenteval_collector.stores.migration import migrate
from agenteval_collector.stores.schema import SAID_INDEX, metadata
from agenteval_collector.stores.store import Store
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import event

from otel_agenteval.model import Tool, ToolCall, Trace, Turn
from otel_agenteval.outcome import Failure, Method, Outcome, Score, Status, SubjectKind, Unscored
from tests.support.clock import ManualClock
from tests.support.databases import database_in, locked
from tests.support.evaluations import evaluation
from tests.support.eventually import eventually
from tests.support.no_spans import NO_SPANS
from tests.support.otlp import START, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.databases


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(database_in(tmp_path), ManualClock(), events_of=no_events)
    yield made
    made.shutdown()


def hex_id(number: int) -> str:
    return trace_id(number).hex()


def record(number: int, **changes: Any) -> ScoredTrace:
    calls = (ToolCall(name="search", arguments={"q": 1}, result="found", error=None),)
    turns = (
        Turn(span_id="01", input="hi", output=f"answer {number}", tool_calls=calls, started_at=START, ended_at=START),
    )
    trace = Trace(
        trace_id=hex_id(number),
        session_id="s",
        agents=("planner",),
        turns=turns,
        available_tools=(Tool(name="search"),),
        span_count=1,
        started_at=START + number,
        ended_at=START + number + 1,
    )
    session_id, revision = changes.pop("session_id", "s"), changes.pop("revision", 1)
    arguments: dict[str, Any] = {
        "view": view_of(trace, session_id=session_id, revision=revision, complete=True),
        "offsets": [number],
        "scored_at": START,
    }
    return ScoredTrace(**{**arguments, **changes})


def score(number: int, **changes: Any) -> Any:
    return evaluation(subject_id=hex_id(number), trace_id=hex_id(number), session_id="s", **changes)


def session_update(session_id: str = "s", *, last_seen_at: int = START, agent: str = "planner") -> SessionUpdate:
    return SessionUpdate(
        state=SessionState(
            session_id=session_id,
            user_id=None,
            agent=agent,
            service="shop",
            services=("shop",),
            started_at=START,
            last_seen_at=last_seen_at,
            trace_count=1,
        ),
        evaluations=[
            evaluation(
                name="agent_reliability", subject=SubjectKind.SESSION, subject_id=session_id, session_id=session_id
            )
        ],
    )


def commit_of(*numbers: int, **changes: Any) -> Commit:
    return Commit(
        traces=[record(number) for number in numbers],
        evaluations=[score(number, **changes) for number in numbers],
        sessions={"s": session_update()},
    )


def queries(store: Store, idle: float = 900.0) -> Queries:
    return Queries(
        store,
        ManualClock(),
        idle=idle,
        reliability=reliability_reports(Settings(), store, ManualClock()),
        running=NothingRuns(),
        judge=NothingRuns(),
        drifts=tuple,
        spans=NO_SPANS,
    )


def test_the_migrations_make_the_tables_of_the_schema(store: Store) -> None:
    def is_table_of_ours(name: str | None, *_: object) -> bool:
        of_one = (SAID_INDEX, "traces_said", "rowid", "traces_by_rowid", "outcomes_failed")
        return name is None or not name.startswith(of_one)

    with store.outside.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_name": is_table_of_ours})
        assert compare_metadata(context, metadata) == []


@pytest.mark.sqlite
@pytest.mark.parametrize("statement", [10, 40, 70, 100])
def test_a_migration_that_breaks_off_leaves_nothing(tmp_path: Path, statement: int) -> None:
    file = tmp_path / "agenteval.db"
    database, executed = SqliteFile(file), count(1)
    engine = database.engine(durable=True, pool_size=1)

    @event.listens_for(engine, "before_cursor_execute")
    def _break_off(*_: object) -> None:
        if next(executed) == statement:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        migrate(database, engine)
    engine.dispose()
    Store(file, ManualClock(), events_of=no_events).shutdown()
    Store(tmp_path / "whole.db", ManualClock(), events_of=no_events).shutdown()
    assert names_in(file) == names_in(tmp_path / "whole.db")


def names_in(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as database:
        return {name for [name] in database.execute("SELECT name FROM sqlite_master")}


@pytest.mark.sqlite
def test_a_store_opens_again_and_one_of_another_version_does_not(tmp_path: Path) -> None:
    path = tmp_path / "agenteval.db"
    for _ in range(2):
        Store(path, ManualClock(), events_of=no_events).shutdown()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with pytest.raises(PermanentError, match=r"agenteval\.db cannot be used.*another version"):
        Store(path, ManualClock(), events_of=no_events)


def test_committing_twice_is_committing_once_and_first_only_the_first_time(store: Store) -> None:
    first = [each.evaluation.subject_id for each in store.commit(commit_of(1, 2)).evaluations if each.first]
    assert first == [hex_id(1), hex_id(2)], "a session counts when it is over"
    before = queries(store).session("s"), queries(store).trace(hex_id(1))
    assert not any(each.first for each in store.commit(commit_of(1, 2)).evaluations)
    assert (queries(store).session("s"), queries(store).trace(hex_id(1))) == before


def test_a_later_revision_supersedes_and_another_version_or_method_stands_beside(store: Store) -> None:
    store.commit(commit_of(1))
    later = record(1, offsets=[1, 7], view=replace(record(1).view, revision=2))
    first = store.commit(
        Commit(
            traces=[later],
            evaluations=[
                score(1, revision=2, outcome=Score(value=0.25, reason="late")),
                score(1, revision=2, version="2"),
                score(1, revision=2, method="llm"),
            ],
        )
    )
    assert [each.first for each in first.evaluations] == [False, True, True]
    document = queries(store).trace(hex_id(1))
    assert document is not None
    assert document["revision"] == 2
    assert [(each["method"], each["evaluator_version"], each["score"]) for each in document["outcomes"]] == [
        ("embedding", "1", 0.25),
        ("embedding", "2", 0.75),
        ("llm", "1", 0.75),
    ]
    assert store.known_traces([hex_id(1), hex_id(9)]) == {hex_id(1): (2, frozenset({1, 7}))}


GOOD, FAILED = Score(value=1.0, reason=""), Failure(error_type="E", reason="")
NO_CONTENT, PENDING = (Unscored(status=status, reason="") for status in (Status.NO_CONTENT, Status.PENDING))


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        pytest.param([GOOD], "scored", id="a score"),
        pytest.param([FAILED, GOOD], "scored", id="a score beside a failure"),
        pytest.param([FAILED], "failed", id="a failure"),
        pytest.param([FAILED, NO_CONTENT], "failed", id="a failure and no content"),
        pytest.param([NO_CONTENT], "unscored", id="no content"),
        pytest.param([GOOD, PENDING], "pending", id="one pending"),
        pytest.param([], "unscored", id="no evaluator at all"),
    ],
)
def test_the_status_of_a_trace_follows_from_its_outcomes(store: Store, outcomes: list[Outcome], status: str) -> None:
    evaluations = [score(1, name=f"n{index}", outcome=each) for index, each in enumerate(outcomes)]
    store.commit(Commit(traces=[record(1)], evaluations=evaluations))
    document = queries(store).trace(hex_id(1))
    assert document is not None
    assert document["status"] == status


def test_documents_have_the_keys_of_the_contract(store: Store) -> None:
    store.commit(commit_of(1))
    trace = queries(store).trace(hex_id(1))
    session = queries(store).session("s")
    [item] = queries(store).sessions().items
    assert trace is not None
    assert session is not None
    assert " ".join(trace) == (
        "trace_id session_id user_id service environment agent agents input output turns complete partial closing "
        "waits_for revision status started_at ended_at span_count tools_called available_tools model_calls effort "
        "usage outcomes labels findings findings_count worst cause seen open_spans not_understood "
        "status_reason names_session continues_turn turn_goes_on"
    )
    assert set(trace["turns"][0]) == {"input", "output", "tools_called", "error"}
    called = "name agent arguments result error outcome told_by span_id"
    assert " ".join(trace["tools_called"][0]) == called
    assert set(trace["outcomes"][0]) == {
        "name", "status", "score", "success", "threshold", "reason", "method", "coverage", "evaluator_version",
        "model", "part", "metadata", "error_type",
    }  # fmt: skip
    about = {
        "session_id",
        "user_id",
        "agent",
        "service",
        "services",
        "status",
        "started_at",
        "last_seen_at",
        "status_reason",
    }
    about |= {
        "running_traces",
        "findings",
        "findings_count",
        "worst",
        "versions",
        "environment",
        "judged_failures",
        "blind",
        "effort",
        "usage",
    }
    whole = {
        "trace_ids",
        "turn_traces",
        "cause",
        "outcomes",
        "signals",
        "labels",
        "flagged_traces",
        "trend",
        "interactions",
    }
    assert set(session) == about | whole
    assert set(item) >= {*about, "trace_count"}
    assert session["signals"] == {hex_id(1): {"coherence": 0.75}}
    assert trace["started_at"] == "2023-11-14T22:13:20.000000Z"
    assert queries(store).trace(hex_id(2)) is None
    assert queries(store).session("none") is None


MALFORMED = Failure(error_type="malformed", reason="no valid reply")
NO_JUDGE = Unscored(status=Status.NO_JUDGE, reason="there is none")
NO_TOOLS = Unscored(status=Status.NOT_APPLICABLE, reason="no tools")


@pytest.mark.parametrize(
    ("of_judge", "shown"),
    [
        pytest.param([NO_JUDGE, NO_JUDGE], [None, None], id="no judge"),
        pytest.param([0.8, 0.6], [0.8, 0.6], id="judged"),
        pytest.param([Unscored(status=Status.PENDING, reason="down")] * 2, [None, None], id="the judge is down"),
        pytest.param([MALFORMED, 0.8], [None, 0.8], id="malformed"),
        pytest.param([Unscored(status=Status.OVER_BUDGET, reason="spent"), 0.8], [None, 0.8], id="over budget"),
        pytest.param([NO_TOOLS, 0.8], [None, 0.8], id="not applicable"),
        pytest.param([NO_JUDGE, 0.8], [None, 0.8], id="from before there was a judge"),
        pytest.param([Unscored(status=Status.SAMPLED_OUT, reason="10 %"), 0.8], [None, 0.8], id="in part"),
    ],
)
def test_nothing_stands_in_for_the_judge(store: Store, of_judge: list[Any], shown: list[float | None]) -> None:
    commit = commit_of(1, 2)
    for name in ("confidence", "task_completion"):
        for number, said in enumerate(of_judge, 1):
            outcome = Score(value=said, reason="as it says") if isinstance(said, float) else said
            commit.evaluations.append(score(number, name=name, method=Method.LLM, outcome=outcome))
    store.commit(commit)
    session = queries(store).session("s")
    assert session is not None
    assert [session["signals"][hex_id(number)].get("confidence") for number in (1, 2)] == shown
    known = [each for each in shown if each is not None]
    assert (session["trend"]["evaluated"], session["trend"]["last"]) == (len(known), known[-1] if known else None)
    regressed = known[-1] < max(known) - 0.15 if len(known) > 1 else None
    assert session["trend"]["regressed"] == regressed


def statuses(store: Store) -> dict[str, str]:
    trace = queries(store).trace(hex_id(1))
    assert trace is not None
    return {each["name"]: each["status"] for each in trace["outcomes"]}


def test_what_no_judge_was_asked_is_shown_counted_once_and_replaced_by_what_it_says_later(store: Store) -> None:
    judged: dict[str, Any] = {"method": Method.LLM, "threshold": 0.5}
    first, later = commit_of(1), Commit(traces=[record(1, revision=2)])
    for commit, revision in ((first, 1), (later, 2)):
        commit.evaluations += [
            score(1, name="task_completion", revision=revision, outcome=NO_JUDGE, **judged),
            score(1, name="tool_correctness", revision=revision, outcome=NO_TOOLS, **judged),
        ]
    counted = [
        [each.evaluation.name for each in store.commit(commit).evaluations if each.first] for commit in (first, later)
    ]
    assert counted[0][-2:] == ["task_completion", "tool_correctness"]
    assert counted[1] == []
    assert {"task_completion": "no_judge", "tool_correctness": "not_applicable"}.items() <= statuses(store).items()
    assert [[each.name for each in found] for found in store.judged.left_out([hex_id(1)], [], 10)] == [
        ["task_completion"]
    ]
    outcome = Score(value=0.9, reason="as it says")
    news = store.commit(Commit(evaluations=[score(1, name="task_completion", revision=2, outcome=outcome, **judged)]))
    assert [each.first for each in news.evaluations] == [False]
    assert {"task_completion": "scored", "tool_correctness": "not_applicable"}.items() <= statuses(store).items()
    assert store.judged.left_out([hex_id(1)], [], 10) == []


def test_pages_are_newest_first_and_stable_while_sessions_come(store: Store) -> None:
    def add(*numbers: int) -> None:
        for number in numbers:
            # Pairs share a time, so that the id has to decide.
            update = session_update(f"s{number:02}", last_seen_at=START + number // 2, agent="ab"[number % 2])
            store.commit(Commit(sessions={update.state.session_id: update}))

    add(*range(10))
    seen, cursor = [], None
    while True:
        page = queries(store).sessions(limit=3, cursor=cursor)
        seen += [item["session_id"] for item in page.items]
        add(10 + len(seen))
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"s{number:02}" for number in reversed(range(10))]
    only = queries(store).sessions(SessionFilter(agent="b"), limit=500)
    assert {item["agent"] for item in only.items} == {"b"}


@pytest.mark.parametrize(
    "cursor", ["", "x", "bm90IGpzb24=", "WzEsMl0=", "é", "W251bGxd", "WzkyMjMzNzIwMzY4NTQ3NzU4MDgsICJzIl0="]
)
def test_a_cursor_that_is_none_of_ours_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        queries(store).sessions(cursor=cursor)


def test_a_session_is_active_then_idle_and_ended_when_it_was_reported(store: Store) -> None:
    clock = ManualClock(START)
    asked = Queries(
        store,
        clock,
        idle=10,
        reliability=reliability_reports(Settings(), store, clock),
        running=NothingRuns(),
        judge=NothingRuns(),
        drifts=tuple,
        spans=NO_SPANS,
    )
    store.commit(commit_of(1))

    def status() -> str:
        session = asked.session("s")
        assert session is not None
        return str(session["status"])

    assert status() == "active"
    clock.advance(10)
    assert status() == "idle"
    assert store.end_session("s")
    assert status() == "ended"
    assert not store.end_session("none")
    assert [each.evaluation.subject_id for each in store.finalize(["s", "none"]).evaluations] == ["s"]
    assert store.finalize(["s"]).evaluations == []
    store.commit(Commit(sessions={"s": session_update(last_seen_at=2**62)}))
    assert store.finalize(["s"]).evaluations == [], "going on does not make it count again"
    assert store.live_sessions() == []


def test_a_session_that_is_read_again_is_what_was_kept(store: Store) -> None:
    store.commit(commit_of(*range(1, 21)))
    stored = store.session("s")
    assert stored is not None
    assert stored.state == replace(session_update().state, services=["shop"], versions=[])
    assert stored.sums is None, "nobody has said what it adds up to"
    assert [trace.trace_id for trace in stored.newest] == [hex_id(number) for number in range(13, 21)]
    assert [[turn.output for turn in trace.turns] for trace in stored.newest] == [
        [f"answer {n}"] for n in range(13, 21)
    ]
    every = store.session_traces("s")
    assert [trace.trace_id for trace in every] == [hex_id(number) for number in range(1, 21)]
    assert every[3].signals == {"coherence": score(4)}
    near = store.neighbours("s", (START + 10, hex_id(10)), 7, 8)
    assert near == [(START + number, hex_id(number)) for number in range(3, 18)]
    third, fifth = store.traces([hex_id(5), hex_id(3)])
    assert [turn.output for trace in (third, fifth) for turn in trace.turns or ()] == ["answer 3", "answer 5"]
    place = (START + 3, hex_id(3))
    assert store.stored_place(hex_id(3)) == StoredPlace(session_id="s", place=place, revision=1)


def test_a_reason_with_a_lone_surrogate_is_kept_readable(store: Store) -> None:
    store.commit(Commit(traces=[record(1)], evaluations=[score(1, outcome=Score(value=1.0, reason="\ud800 said"))]))
    document = queries(store).trace(hex_id(1))
    assert document is not None
    assert document["outcomes"][0]["reason"] == "? said"


def test_what_the_judge_used_up_counts_from_its_hour_on(store: Store) -> None:
    for hour in (6, 7, 7):
        store.ledger.spend(hour, "m", Spend(requests=1))
    assert [store.ledger.spent_since(hour).requests for hour in (6, 7, 8)] == [3, 2, 0]


def test_a_repeated_report_changes_nothing_and_a_later_one_adds(store: Store) -> None:
    report = RunReport(task_id="t", run_id="1", success=True)
    store.report_run(report)
    store.report_run(report)
    store.report_run(replace(report, success=None, confidence=0.5))
    with store.outside.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT task_id, run_id, success, confidence FROM run_reports").all()
    assert [tuple(row) for row in rows] == [("t", "1", 1, 0.5)]


@pytest.mark.sqlite
def test_a_database_that_is_full_is_unavailable_and_keeps_all_or_nothing(tmp_path: Path) -> None:
    store = Store(database_in(tmp_path), ManualClock(), events_of=no_events)
    with store._pipeline.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
        connection.commit()
    with pytest.raises(Unavailable, match="full"):
        store.commit(Commit(traces=[record(n, view=replace(record(n).view, user_id="x" * 4000)) for n in range(20)]))
    assert store.known_traces([hex_id(number) for number in range(20)]) == {}
    store.shutdown()


@pytest.mark.sqlite
def test_the_pipeline_waits_for_a_store_that_refuses_and_goes_on(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        with locked(tmp_path / "agenteval.db"):
            collector.send(traces(turn(1, "a", "b", session="s")))
            running = eventually(lambda: collector.get(f"/api/v1/traces/{hex_id(1)}"))
            assert (running["status"], running["complete"]) == ("running", False)
            assert collector.get("/api/v1/sessions")["items"] == []
        assert collector.scored(hex_id(1), within=30)["status"] == "scored"


def test_queries_answer_while_the_pipeline_writes(store: Store) -> None:
    done = threading.Event()
    torn: list[Any] = []

    def read() -> None:
        while not done.is_set():
            session = queries(store).session("s")
            if session is not None and set(session["signals"]) != set(session["trace_ids"]):
                torn.append(session)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(1, 60):
        store.commit(commit_of(number))
    done.set()
    for reader in readers:
        reader.join(30)
    assert torn == [], "a document shows one moment of the store"
