"""Figures of agents in a real store: exact sums whatever comes late, twice or again, and how they are read."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.model.agents import AgentFigures, AgentHistory, AgentKey, Range, quantile
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.conversation_links import Move
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.stores.store import Store

from otel_agenteval.finding import Severity
from otel_agenteval.metrics.wilson import clustered_interval
from otel_agenteval.outcome import JudgedPart
from tests.support.agent_history import HOUR, NOW, error_in, judged, session_of, trace_of
from tests.support.clock import ManualClock
from tests.support.databases import database_in
from tests.support.findings import finding

pytestmark = pytest.mark.databases


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(database_in(tmp_path), ManualClock(NOW), events_of=no_events)
    yield made
    made.shutdown()


def history(store: Store, since: int = 0, step: int = 1) -> AgentHistory:
    with store.snapshot() as records:
        return records.agent_history(AgentKey("planner", "shop"), since, step)


def total(store: Store) -> AgentFigures:
    return history(store).total


def test_traces_add_up_by_session(store: Store) -> None:
    commit = Commit()
    for number in range(12):
        found = [error_in(number)] if number < 3 else []
        commit.traces.append(trace_of(number, session=f"s-{number % 4}", found=found))
        commit.evaluations.append(judged(number, 0.9 if number % 2 else 0.1))
    store.commit(commit)
    figures = total(store)
    assert (figures.sessions, figures.errors.clusters, figures.errors.trials, figures.errors.hits) == (4, 4, 12, 3)
    assert (figures.errors.trials_squared, figures.errors.hits_squared, figures.errors.trials_by_hits) == (36, 3, 9)
    assert (figures.rates["task_completion"].trials, figures.rates["task_completion"].hits) == (12, 6)
    assert (figures.usd, figures.priced) == (6.0, 12)
    assert quantile(figures.steps, 0.5) == pytest.approx(2.0, rel=0.1)


def test_only_what_was_drawn_at_random_makes_a_rate(store: Store) -> None:
    store.commit(Commit(traces=[trace_of(1)], evaluations=[judged(1, 0.1, part=JudgedPart.ESCALATED)]))
    figures = total(store)
    assert figures.rates == {}


def test_a_price_or_a_time_that_is_not_known_is_no_zero(store: Store) -> None:
    store.commit(Commit(traces=[trace_of(1, usd=None, seconds=None)]))
    figures = total(store)
    assert (figures.errors.trials, figures.priced, figures.steps) == (1, 0, {})


def test_a_finding_that_is_told_while_a_trace_is_kept_counts(store: Store) -> None:
    store.commit(Commit(traces=[trace_of(1)]))
    store.findings.keep([finding(kind="agent_died", severity=Severity.ERROR, trace_id=f"{1:032x}")])
    figures = total(store)
    assert figures.errors.hits == 1


def test_sums_are_exact_whatever_changes(store: Store) -> None:
    """Revisions, judgements and moves in any order end in the sums of what is kept last."""
    chance = random.Random(4)
    last: dict[int, dict[str, Any]] = {}
    revisions: dict[int, int] = {}
    verdicts: dict[int, float] = {}
    for _ in range(60):
        commit = Commit()
        for number in chance.sample(range(12), 3):
            match chance.choice(("trace", "judge", "move")) if number in last else "trace":
                case "judge":
                    verdicts[number] = chance.choice((0.1, 0.9))
                    commit.evaluations.append(judged(number, verdicts[number], revision=revisions[number]))
                case "move":
                    left, joined = last[number]["session"], f"s-{chance.randrange(3)}"
                    if left != joined:
                        move = Move(trace_id=f"{number:032x}", started_at=NOW, left=left, joined=joined)
                        commit.moves[move.trace_id] = move
                        last[number]["session"] = joined
                case _:
                    revisions[number] = revisions.get(number, 0) + 1
                    verdicts.pop(number, None)
                    last[number] = {
                        "session": f"s-{chance.randrange(3)}",
                        "version": chance.choice(("1", "2", None)),
                        "found": [error_in(number)] if chance.random() < 0.5 else [],
                        "usd": chance.choice((None, 0.5)),
                        "seconds": chance.choice((None, 1.0, 64.0)),
                    }
                    commit.traces.append(trace_of(number, revision=revisions[number], **last[number]))
        store.commit(commit)
    figures = total(store)
    kept = last.values()
    assert figures.errors.trials == len(last)
    assert figures.errors.hits == sum(bool(each["found"]) for each in kept)
    assert figures.sessions == len({each["session"] for each in kept})
    assert figures.priced == sum(each["usd"] is not None for each in kept)
    assert figures.usd == pytest.approx(sum(each["usd"] or 0.0 for each in kept))
    assert sum(figures.steps.values()) == sum(each["seconds"] is not None for each in kept)
    assert figures.rates["task_completion"].trials == len(verdicts)
    assert figures.rates["task_completion"].hits == sum(value > 0.5 for value in verdicts.values())


def test_points_are_hours_by_their_step_and_the_present_one_is_the_last(store: Store) -> None:
    ages = (0, 1, 1, 23, 24)
    store.commit(Commit(traces=[trace_of(n, at=NOW - age * HOUR) for n, age in enumerate(ages)]))
    first = Range.DAY.first(NOW)
    points = history(store, first).points
    assert {point - first: each.errors.trials for point, each in points.items()} == {23: 1, 22: 2, 0: 1}
    points = history(store, Range.WEEK.first(NOW) * 6, 6).points
    assert sum(each.errors.trials for each in points.values()) == 5
    assert max(points) == Range.WEEK.first(NOW) + Range.WEEK.points - 1


def test_a_session_over_many_hours_is_one_session(store: Store) -> None:
    store.commit(Commit(traces=[trace_of(n, at=NOW - n * HOUR) for n in range(5)]))
    figures = total(store)
    assert (figures.sessions, figures.errors.clusters, figures.hours_per_session) == (1, 5, 5.0)
    assert clustered_interval(figures.errors, figures.hours_per_session) is None


def test_versions_say_when_they_began_however_long_ago(store: Store) -> None:
    old = trace_of(1, version="1.0", at=NOW - 1000 * HOUR)
    new = [trace_of(2, version="1.0"), trace_of(3, version="1.1"), trace_of(4, version=None)]
    store.commit(Commit(traces=[old, *new]))
    found = history(store, NOW // HOUR - 24)
    assert {version: hour - NOW // HOUR for version, hour in found.began.items()} == {"1.0": -1000, "1.1": 0, "": 0}
    assert {version: each.errors.trials for version, each in found.versions.items()} == {"1.0": 1, "1.1": 1, "": 1}


def test_nothing_is_known_of_an_agent_without_traces(store: Store) -> None:
    with store.snapshot() as records:
        found = records.agent_history(AgentKey("nobody", None), 0, 1)
    assert (found.total, found.points, found.versions) == (AgentFigures(), {}, {})


def test_agents_are_listed_by_their_newest_telemetry(store: Store) -> None:
    commit = Commit()
    for number, name in enumerate(("a", "b", "c")):
        commit.add(session_of(f"s-{number}", name, at=NOW - number * HOUR))
    store.commit(commit)
    with store.snapshot() as records:
        page = records.agents(None, 2)
        rest = records.agents(page.next_cursor, 2)
        with pytest.raises(InvalidRequest):
            records.agents("abc", 2)
        assert records.agent("nobody") == []
    assert [each.agent for each in (*page.items, *rest.items)] == ["a", "b", "c"]
    assert rest.next_cursor is None


def test_agents_of_one_name_in_two_services_are_two(store: Store) -> None:
    commit = Commit(
        traces=[
            trace_of(1, session="a", found=[error_in(1, service="shop")]),
            replace(trace_of(2, session="b"), service="bank"),
            replace(trace_of(3, session="c"), service=None),
        ]
    )
    for name, service in (("a", "shop"), ("b", "bank"), ("c", None)):
        of_service = session_of(name)
        commit.add(replace(of_service, state=replace(of_service.state, service=service)))
    store.commit(commit)
    with store.snapshot() as records:
        seen = [each.key for each in records.agents(None, 50).items]
        shares = {key.service: records.agent_history(key, 0, 1).total.errors for key in seen}
        counts = {each.whose: each.problems for each in records.problem_counts(NOW)}
        page = records.agents(None, 2)
        rest = records.agents(page.next_cursor, 2)
        assert [each.service for each in records.agent("planner")] == [None, "bank", "shop"]
    assert {key.agent for key in seen} == {"planner"}
    assert {service: (each.hits, each.trials) for service, each in shares.items()} == {
        "shop": (1, 1), "bank": (0, 1), None: (0, 1),
    }  # fmt: skip
    assert counts == {AgentKey("planner", "shop"): 1}
    assert [each.key for each in (*page.items, *rest.items)] == seen
