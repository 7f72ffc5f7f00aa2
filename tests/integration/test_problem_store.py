"""Problems in a real store: exact counts whatever comes late, twice or again, and their states."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.commit import Commit, ScoredTrace
from agenteval_collector.model.conversation_links import Move
from agenteval_collector.model.cursors import encode_cursor
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.news import no_events
from agenteval_collector.model.problem import NEW_FOR, QUIET_FOR, Problem, ProblemFilter, ProblemState
from agenteval_collector.model.trace_view import view_of
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.stores import problems as limits
from agenteval_collector.stores.problems import HOUR
from agenteval_collector.stores.store import Store
from sqlalchemy import Select
from sqlalchemy.dialects import sqlite

from otel_agenteval.finding import Finding, Severity
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation, Method, Score, SubjectKind
from tests.support.clock import ManualClock
from tests.support.databases import database_in
from tests.support.evaluations import evaluation
from tests.support.findings import finding

pytestmark = pytest.mark.databases

NOW = 1_700_000_000_000_000_000
EVERYTHING = ProblemFilter()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    made = Store(database_in(tmp_path), clock, events_of=no_events)
    yield made
    made.shutdown()


def failing(trace: int, shape: str = "timeout", *, at: int = NOW, session: int = 0, **changes: object) -> Finding:
    told = {
        "kind": "tool_failed",
        "severity": Severity.WARNING,
        "trace_id": f"{trace:032x}",
        "session_id": f"s-{session}",
        "metadata": {"shape": shape},
        "found_at": at,
    }
    return finding(**{**told, **changes})


def judged(trace: int, value: float, *, session: int = 0, revision: int = 1, at: int = NOW) -> Evaluation:
    return evaluation(
        name="task_completion",
        method=Method.LLM,
        subject_id=f"{trace:032x}",
        trace_id=f"{trace:032x}",
        session_id=f"s-{session}",
        revision=revision,
        outcome=Score(value=value, reason="as it is", coverage=1.0),
        evaluated_at=at,
    )


def record(
    trace: int, found: Sequence[Finding] = (), *, session: int = 0, revision: int = 1, usd: float | None = 0.5
) -> ScoredTrace:
    trace_id = f"{trace:032x}"
    return ScoredTrace(
        view=view_of(
            Trace(trace_id=trace_id, started_at=NOW), session_id=f"s-{session}", revision=revision, complete=True
        ),
        offsets=(),
        scored_at=NOW,
        findings=found,
        agent="planner",
        service="shop",
        service_version="1.2.0",
        effort=Effort(steps=1, tokens=1, seconds=2.0, usd=usd),
    )


def problems(store: Store, wanted: ProblemFilter = EVERYTHING, *, now: int = NOW) -> list[Problem]:
    with store.snapshot() as records:
        return records.problems(wanted, now=now, limit=500, cursor=None).items


def test_a_thousand_equal_failures_are_one_problem_with_what_they_took(store: Store) -> None:
    for first in range(0, 1000, 50):
        commit = Commit()
        for trace in range(first, first + 50):
            found = [failing(trace, at=NOW - trace, session=trace % 100), failing(trace, span_id="0" * 16)]
            commit.traces.append(record(trace, found, session=trace % 100))
        store.commit(commit)
    (problem,) = problems(store)
    assert (problem.traces, problem.sessions, problem.usd, problem.seconds) == (1000, 100, 500.0, 2000.0)
    assert problem.versions == {"1.2.0": 1000}
    assert problem.first_version == "1.2.0"
    assert (problem.first_seen, problem.last_seen) == (NOW - 999, NOW)
    assert sum(problem.trend) == 1000
    assert problem.examples == [f"{trace:032x}" for trace in range(5)]
    assert problem.key.title == "search: timeout"


def test_what_a_later_revision_does_not_show_is_taken_back(store: Store) -> None:
    store.commit(Commit(traces=[record(1, [failing(1, severity=Severity.ERROR)]), record(2, [failing(2)])]))
    assert [problem.severity for problem in problems(store)] == ["error"]
    store.commit(Commit(traces=[record(1, revision=2)]))
    (problem,) = problems(store)
    assert (problem.traces, problem.usd, problem.examples) == (1, 0.5, [f"{2:032x}"])
    assert problem.severity == "warning"
    store.commit(Commit(traces=[record(2, revision=2)]))
    assert problems(store) == []


def test_judged_failures_are_a_problem_until_they_are_judged_otherwise(store: Store) -> None:
    store.commit(Commit(traces=[record(1)], evaluations=[judged(1, 0.2)]))
    (problem,) = problems(store)
    assert (problem.key.kind, problem.severity, problem.key.tool) == ("task_completion", Severity.ERROR, None)
    store.commit(Commit(evaluations=[judged(1, 0.9)]))
    assert problems(store) == []


def test_judged_failures_are_a_problem_for_each_shape_of_their_reasons(store: Store) -> None:
    def told(trace: int, shape: str | None) -> Evaluation:
        metadata = {} if shape is None else {"shape": shape}
        return replace(judged(trace, 0.2), outcome=Score(value=0.2, reason="in its words", metadata=metadata))

    whose = AgentKey("planner", "shop")
    store.commit(Commit(traces=[record(number) for number in range(1, 5)]))
    shapes = ["no refund", "wrong date", "no refund", None]
    store.commit(Commit(evaluations=[told(number, shape) for number, shape in enumerate(shapes, 1)]))
    assert {each.key.title: each.traces for each in problems(store)} == {
        "Fails task completion: no refund": 2,
        "Fails task completion: wrong date": 1,
        "Fails task completion": 1,
    }
    assert sorted(store.problems.shapes(whose, "task_completion")) == ["no refund", "wrong date"]
    assert store.problems.shapes(whose, "goal_success") == []
    store.commit(Commit(evaluations=[told(3, "wrong date"), judged(4, 0.9)]))
    assert {each.key.title: each.traces for each in problems(store)} == {
        "Fails task completion: no refund": 1,
        "Fails task completion: wrong date": 2,
    }


def test_the_failed_goal_of_a_session_is_a_problem(store: Store) -> None:
    goal = evaluation(
        name="goal_success",
        method=Method.LLM,
        subject=SubjectKind.SESSION,
        subject_id="s-0",
        trace_id=None,
        outcome=Score(value=0.0, reason="not reached", coverage=1.0),
        evaluated_at=NOW,
        session_id="s-0",
    )
    store.commit(Commit(evaluations=[goal]))
    (problem,) = problems(store)
    assert (problem.key.title, problem.traces, problem.sessions, problem.examples) == ("Fails goal success", 1, 1, [])


def test_states_follow_from_when_it_occurs_and_what_people_say(store: Store, clock: ManualClock) -> None:
    def state(now: int) -> ProblemState:
        (problem,) = problems(store, now=now)
        return problem.state

    store.commit(Commit(traces=[record(1, [failing(1)])]))
    problem_id = problems(store)[0].key.problem_id
    assert [state(NOW), state(NOW + NEW_FOR + 1), state(NOW + QUIET_FOR + 1)] == ["new", "ongoing", "resolved"]
    assert store.problems.resolve(problem_id, "anna")
    assert state(NOW) == "resolved"
    # Late telemetry of before it was resolved is no regression.
    store.commit(Commit(traces=[record(2, [failing(2, at=NOW - 1)])]))
    assert state(NOW) == "resolved"
    store.commit(Commit(traces=[record(3, [failing(3, at=NOW + 1)])]))
    assert [state(NOW + 1), state(NOW + NEW_FOR + 2)] == ["regressed", "ongoing"]
    assert store.problems.mute(problem_id, NOW + 5 * HOUR, "anna")
    assert [state(NOW + 1), state(NOW + 5 * HOUR)] == ["muted", "regressed"]
    assert store.problems.mute(problem_id, None, "anna")
    assert state(NOW + 1) == "regressed"
    assert not store.problems.resolve("0" * 16, "anna")


def test_what_comes_back_after_a_week_is_a_regression_though_nobody_resolved_it(store: Store) -> None:
    store.commit(Commit(traces=[record(1, [failing(1)])]))
    later = NOW + QUIET_FOR
    store.commit(Commit(traces=[record(2, [failing(2, at=later)])]))
    assert problems(store, now=later)[0].state != "regressed", "a week of silence, and not more"
    store.commit(Commit(traces=[record(3, [failing(3, at=later + QUIET_FOR + 1)])]))
    assert problems(store, now=later + QUIET_FOR + 1)[0].state == "regressed"


def test_another_revision_of_a_known_trace_is_no_regression(store: Store) -> None:
    store.commit(Commit(traces=[record(1, [failing(1)])]))
    store.problems.resolve(problems(store)[0].key.problem_id, None)
    store.commit(Commit(traces=[record(1, [failing(1, at=NOW + 9)], revision=2, usd=2.0)]))
    (problem,) = problems(store)
    assert (problem.state, problem.usd) == ("resolved", 2.0)


def test_counts_are_those_of_the_stored_findings_whatever_happened(store: Store) -> None:
    draw, revisions = random.Random(5), count(2)
    shapes = ["timeout", "no order …", "HTTP 500"]
    for _ in range(300):
        trace, session = draw.randrange(25), draw.randrange(6)
        found = [
            failing(trace, draw.choice(shapes), at=NOW - draw.randrange(HOUR), session=session, span_id=f"{nth:016x}")
            for nth in range(draw.choice([0, 0, 1, 2, 4]))
        ]
        match draw.randrange(4):
            case 0:
                store.findings.keep([each for each in found if draw.random() < 0.5])
            case 1:
                move = Move(trace_id=f"{trace:032x}", left="s-0", joined=f"s-{session}", started_at=NOW)
                store.commit(Commit(moves={move.trace_id: move}))
            case 2:
                store.commit(Commit(evaluations=[judged(trace, draw.random(), session=session)]))
            case _:
                usd = draw.choice([None, 0.25, 1.0])
                store.commit(Commit(traces=[record(trace, found, session=session, revision=next(revisions), usd=usd)]))
    assert {problem.key: summed(problem) for problem in problems(store)} == counted_again(store)


def summed(problem: Problem) -> tuple[object, ...]:
    sums = problem.traces, problem.sessions, dict(problem.versions), sum(problem.trend)
    return *sums, problem.first_seen, problem.last_seen, problem.usd, problem.seconds


def counted_again(store: Store) -> dict[object, tuple[object, ...]]:
    """A slow oracle: all from the findings and outcomes, trace by trace."""
    with store.outside.engine.connect() as connection:
        whose = "agent, service"
        found = connection.exec_driver_sql(
            f"SELECT {whose}, kind, tool, metadata, trace_id, session_id, service_version, found_at FROM findings"
        ).all()
        failed = connection.exec_driver_sql(
            f"SELECT {whose}, name, NULL, '{{}}', subject_id, session_id, service_version, evaluated_at FROM outcomes"
            " WHERE success = false"
        ).all()
        efforts = dict(map(tuple, connection.exec_driver_sql("SELECT trace_id, effort FROM traces")))
    traces: dict[object, dict[str, list[tuple[str, str, int]]]] = {}
    key: object
    for agent, service, kind, tool, metadata, trace_id, session_id, version, time in (*found, *failed):
        key = (agent, service, kind, tool, json.loads(metadata).get("shape", ""))
        traces.setdefault(key, {}).setdefault(trace_id, []).append((session_id, version, time))
    sums: dict[object, tuple[object, ...]] = {}
    for key, places in traces.items():
        firsts = [min(time for *_, time in each) for each in places.values()]
        effort = [json.loads(efforts.get(each, "{}")) for each in places]
        sums[key] = (
            len(places),
            len({each[0][0] for each in places.values()}),
            {"1.2.0": len(places)},
            len(places),
            min(firsts),
            max(firsts),
            sum(each.get("usd") or 0.0 for each in effort),
            sum(each.get("seconds") or 0.0 for each in effort),
        )
    return sums


def test_a_million_distinct_errors_would_be_a_bounded_number_of_problems(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_SHAPES", 5)
    monkeypatch.setattr(limits, "MOST_PROBLEMS", 12)
    letters = [f"{a}{b}" for a in "klmnop" for b in "qrstuv"]
    for trace, word in enumerate(letters):
        store.commit(Commit(traces=[record(trace, [failing(trace, f"no {word}")])]))
    titles = {problem.key.title: problem.traces for problem in problems(store)}
    assert titles.pop("search: other errors") == len(letters) - 5
    assert set(titles.values()) == {1}
    for trace in range(20):
        store.commit(Commit(traces=[record(100 + trace, [failing(100 + trace, agent=f"agent {trace}")])]))
    found = problems(store)
    assert len(found) == 13
    assert {problem.key.kind: problem.traces for problem in found}["other"] == 14


def test_pages_go_through_all_problems_once_the_worst_open_ones_first(store: Store) -> None:
    for trace in range(7):
        severity = Severity.ERROR if trace % 3 == 0 else Severity.WARNING
        store.commit(Commit(traces=[record(trace, [failing(trace, "x" * trace, severity=severity, at=NOW + trace)])]))
    store.problems.resolve(problems(store)[0].key.problem_id, "anna")
    shown: list[Problem] = []
    cursor: str | None = None
    with store.snapshot() as records:
        while True:
            page = records.problems(EVERYTHING, now=NOW, limit=2, cursor=cursor)
            shown += page.items
            if (cursor := page.next_cursor) is None:
                break
    assert [len(each.key.shape) for each in shown] == [3, 0, 5, 4, 2, 1, 6]
    for foreign in ("no cursor", encode_cursor([2**63, 0, "a"])):
        with store.snapshot() as records, pytest.raises(InvalidRequest):
            records.problems(EVERYTHING, now=NOW, limit=2, cursor=foreign)


@pytest.mark.parametrize(
    ("wanted", "number"),
    [
        (ProblemFilter(agent="planner"), 2),
        (ProblemFilter(agent="guide"), 0),
        (ProblemFilter(severity=Severity.ERROR), 1),
        (ProblemFilter(state=ProblemState.NEW), 2),
        (ProblemFilter(version="1.2.0"), 2),
        (ProblemFilter(version="9"), 0),
    ],
)
def test_listings_are_filtered(store: Store, wanted: ProblemFilter, number: int) -> None:
    found = [failing(1), failing(1, "other", severity=Severity.ERROR)]
    store.commit(Commit(traces=[record(1, found)]))
    assert len(problems(store, wanted)) == number
    with store.snapshot() as records:
        counts = records.problem_counts(NOW)
    assert sum(each.problems for each in counts) == 2


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("query", "reaches"),
    [
        pytest.param(limits._FAILURES, "subject=? AND subject_id=?", id="judged failures"),
        pytest.param(limits._FINDINGS, "trace_id=?", id="findings"),
        pytest.param(limits._STORED, "subject_id=?", id="what is kept"),
        pytest.param(limits._COUNTS, "problem_id=? AND what=? AND value=?", id="counts"),
    ],
)
def test_a_change_looks_at_what_it_concerns_however_much_is_stored(
    store: Store, query: Select[Any], reaches: str
) -> None:
    compiled = query.compile(dialect=sqlite.dialect(paramstyle="named"), compile_kwargs={"render_postcompile": True})
    asked = {**compiled.params, "own": "default", "ids": "[]", "values": "[]"}
    with store.outside.engine.connect() as connection:
        plan = [step.detail for step in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", asked)]
    assert [step for step in plan if reaches in step], plan
