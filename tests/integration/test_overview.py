"""What all agents did together, and an environment as the scope of every figure, in a real store."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from agenteval_collector.model.agents import AgentKey, Overview, quantile
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.news import no_events
from agenteval_collector.model.problem import ProblemFilter
from agenteval_collector.stores.store import Store

from otel_agenteval.finding import Severity
from tests.support.agent_history import HOUR, NOW, error_in, session_of, trace_of
from tests.support.clock import ManualClock
from tests.support.databases import database_in

pytestmark = pytest.mark.databases

HOUR_NOW = NOW // HOUR


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Ten traces of `prod` in version 1, of which two failed, and four slow ones of `staging` in version 2, all failed;
    one trace a week before."""
    made = Store(database_in(tmp_path), ManualClock(NOW), events_of=no_events)
    commit = Commit()
    for number in range(14):
        environment, version = ("prod", "1") if number < 10 else ("staging", "2")
        failed = number < 2 or number >= 10
        at = NOW - (2 if version == "1" else 0) * HOUR
        found = [error_in(number, agent="planner", service="shop", found_at=at)] if failed else []
        taken = 1.0 if version == "1" else 60.0
        session = f"s-{environment}-{number % 2}"
        commit.traces.append(trace_of(number, session=session, version=version, at=at, found=found, seconds=taken))
        update = session_of(session)
        commit.sessions[session] = replace(update, state=replace(update.state, environment=environment))
    commit.traces.append(trace_of(99, session="s-old", version="1", at=NOW - 7 * 24 * HOUR))
    made.commit(commit)
    yield made
    made.shutdown()


def overview(store: Store, environment: str | None = None) -> Overview:
    with store.snapshot() as records:
        return records.overview(HOUR_NOW - 23, 1, environment)


@pytest.mark.parametrize(
    ("environment", "sessions", "traces", "errors", "p50"),
    [(None, 4, 14, 6, 1.0), ("prod", 2, 10, 2, 1.0), ("staging", 2, 4, 4, 60.0), ("nowhere", 0, 0, 0, None)],
)
def test_traces_of_all_agents_add_up(
    store: Store, environment: str | None, sessions: int, traces: int, errors: int, p50: float | None
) -> None:
    found = overview(store, environment)
    assert (found.total.sessions, found.total.traces, found.total.errors) == (sessions, traces, errors)
    assert found.total.usd == pytest.approx(traces * 0.5)
    assert sum(point.traces for point in found.points.values()) == traces
    middle = quantile(found.steps, 0.5)
    assert middle is None if p50 is None else middle == pytest.approx(p50, rel=0.1)


def test_a_version_that_began_lately_is_told_with_the_one_before(store: Store) -> None:
    [deploy] = overview(store).deploys
    assert (deploy.key, deploy.version, deploy.before) == (AgentKey("planner", "shop"), "2", "1")
    assert (deploy.errors, deploy.traces, deploy.errors_before, deploy.traces_before) == (4, 4, 2, 10)
    assert overview(store, "prod").deploys == []


def test_figures_of_an_agent_are_those_of_the_environment(store: Store) -> None:
    with store.snapshot() as records:
        assert records.environments() == ["prod", "staging"]
        assert [each.agent for each in records.agents(None, 5, "prod").items] == ["planner"]
        assert records.agents(None, 5, "nowhere").items == []
        found = records.agent_history(AgentKey("planner", "shop"), HOUR_NOW - 23, 1, "staging")
    assert (found.total.errors.trials, found.total.sessions, sum(found.total.steps.values())) == (4, 2, 4)
    assert [version for version, figures in found.versions.items() if figures.errors.trials] == ["2"]


def test_problems_are_those_that_occurred_there_and_since_then(store: Store) -> None:
    def found(**wanted: object) -> int:
        with store.snapshot() as records:
            problems = records.problems(ProblemFilter(**wanted), now=NOW, limit=5, cursor=None)  # type: ignore[arg-type]
        return len(problems.items)

    assert found(severity=Severity.ERROR) == 1
    assert (found(environment="prod"), found(environment="nowhere")) == (1, 0)
    assert (found(environment="prod", since=NOW - 3 * HOUR), found(environment="prod", since=NOW - HOUR)) == (1, 0)
    assert (found(since=NOW - HOUR), found(since=NOW + HOUR)) == (1, 0)
