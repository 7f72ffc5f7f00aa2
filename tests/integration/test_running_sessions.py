"""Sessions that the store does not know yet, in listings with those that it knows."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from agenteval_collector.app.offline import NothingRuns
from agenteval_collector.app.scoring import reliability_reports
from agenteval_collector.config.settings import Settings
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.news import no_events
from agenteval_collector.model.running_traces import RunningTrace
from agenteval_collector.model.session_filter import SessionFilter
from agenteval_collector.model.sessions import SessionState, SessionUpdate
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.stores.store import Store

from tests.support.clock import ManualClock
from tests.support.databases import database_in
from tests.support.findings import TRACE_ID, loop_found
from tests.support.no_spans import NO_SPANS
from tests.support.otlp import START

pytestmark = pytest.mark.databases


class Sessions(NothingRuns):
    """A store with three sessions, and queries on it that see whatever runs."""

    def __init__(self, path: Path) -> None:
        clock = ManualClock()
        self.store = Store(database_in(path), clock, events_of=no_events)
        self.running: list[RunningTrace] = []
        self.queries = Queries(
            self.store,
            clock,
            idle=900.0,
            reliability=reliability_reports(Settings(), self.store, clock),
            running=self,
            judge=self,
            drifts=tuple,
            spans=NO_SPANS,
        )
        for number in (1, 2, 3):
            record = SessionState(
                session_id=f"stored {number}",
                user_id=None,
                agent="planner",
                service="shop",
                services=("shop",),
                started_at=START,
                last_seen_at=START + number,
                trace_count=1,
            )
            self.store.commit(Commit(sessions={record.session_id: SessionUpdate(state=record, evaluations=[])}))

    def traces(self) -> list[RunningTrace]:
        return self.running

    def run(self, session_id: str, at: int, *, agent: str = "planner", stopped: str | None = None) -> None:
        self.running.append(
            RunningTrace(
                trace_id=f"{at:032x}", session_id=session_id, user_id=None, agent=agent, service="shop",
                started_at=START + at, stopped=stopped,
            )
        )  # fmt: skip

    def pages(self, limit: int, agent: str | None = None) -> list[list[str]]:
        """The ids of the sessions, page by page."""
        found, cursor = [], None
        while True:
            page = self.queries.sessions(SessionFilter(agent=agent), limit=limit, cursor=cursor)
            found.append([item["session_id"] for item in page.items])
            cursor = page.next_cursor
            if cursor is None:
                return found


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    made = Sessions(tmp_path)
    yield made
    made.store.shutdown()


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 50])
def test_a_listing_has_each_session_once_those_that_only_run_first(sessions: Sessions, limit: int) -> None:
    sessions.run("new 1", at=10)
    sessions.run("stored 2", at=11)
    found = [session_id for page in sessions.pages(limit) for session_id in page]
    assert found == ["new 1", "stored 3", "stored 2", "stored 1"]
    assert all(len(page) <= limit for page in sessions.pages(limit))


def test_no_more_than_a_page_of_those_that_only_run_is_listed_the_newest(sessions: Sessions) -> None:
    for number in range(5):
        sessions.run(f"new {number}", at=10 + number)
    assert sessions.pages(2) == [["new 4", "new 3"], ["stored 3", "stored 2"], ["stored 1"]]


def test_a_listing_of_one_agent_has_its_running_sessions_only(sessions: Sessions) -> None:
    sessions.run("new 1", at=10, agent="writer")
    assert sessions.pages(50, agent="writer") == [["new 1"]]
    assert sessions.pages(50, agent="planner") == [["stored 3", "stored 2", "stored 1"]]


def test_a_session_that_is_stored_runs_while_a_trace_of_it_does(sessions: Sessions) -> None:
    sessions.run("stored 1", at=10, stopped="it may have died")
    document = sessions.queries.session("stored 1")
    assert document is not None
    trace_id = f"{10:032x}"
    assert (document["status"], document["running_traces"]) == ("running", [trace_id])
    assert document["status_reason"] == f"trace {trace_id}: it may have died"
    assert [item["status"] for item in sessions.queries.sessions().items] == ["active", "active", "running"]


def test_a_session_that_only_runs_has_the_keys_of_any_other(sessions: Sessions) -> None:
    sessions.run("new", at=10)
    new, stored = sessions.queries.session("new"), sessions.queries.session("stored 1")
    assert new is not None
    assert stored is not None
    assert new.keys() == stored.keys()
    [first, *_, last] = sessions.queries.sessions().items
    assert first.keys() == last.keys()
    sessions.running.clear()
    assert sessions.queries.session("new") is None


def test_loops_of_running_traces_are_their_sessions(sessions: Sessions) -> None:
    sessions.run("new", at=int(TRACE_ID, 16))
    sessions.store.findings.keep([loop_found(session_id=TRACE_ID)])
    document = sessions.queries.session("new")
    assert document is not None
    assert [(each["trace_id"], each["kind"]) for each in document["findings"]] == [(TRACE_ID, "identical_call")]
