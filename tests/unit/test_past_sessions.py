"""What past sessions were like, told by the news and by the store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.evaluation.sessions.past_sessions import KEPT_AGENTS, KEPT_SESSIONS, PastSessions
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.news import CommittedEvaluation, News, no_events
from agenteval_collector.model.sessions import PastSession, SessionState, SessionUpdate
from agenteval_collector.stores.store import Store

from otel_agenteval.outcome import JudgedPart, Method, Score, SubjectKind
from tests.support.clock import ManualClock
from tests.support.databases import database_in
from tests.support.evaluations import committed

pytestmark = pytest.mark.databases


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(database_in(tmp_path), TickingClock(), events_of=no_events)
    yield made
    made.shutdown()


class TickingClock(ManualClock):
    """A clock whose time goes on with every look at it."""

    def now(self) -> int:
        self.advance(1)
        return super().now()


def record(session_id: str) -> SessionState:
    """An active session of one trace."""
    return SessionState(
        session_id=session_id,
        user_id=None,
        agent="planner",
        services=["shop"],
        started_at=1,
        last_seen_at=1,
        trace_count=1,
    )


def ended(score: float = 0.2, **changes: Any) -> CommittedEvaluation:
    """The final score of a session that was drawn at random."""
    said = {
        "name": "agent_reliability",
        "method": Method.EXACT,
        "subject": SubjectKind.SESSION,
        "part": JudgedPart.RANDOM,
        "outcome": Score(value=score, reason=""),
        "final": True,
    }
    return committed(**{**said, **changes})


def test_sessions_that_are_over_count_once_each_agent_by_itself() -> None:
    past = PastSessions()
    past.take_news(News(evaluations=[ended(0.2), ended(0.9), ended(0.2, agent="writer")]))
    assert past.count("planner", "shop", "agent_reliability") == (2, 1)
    assert past.count("writer", "shop", "agent_reliability") == (1, 1)
    assert past.count("planner", "shop", "agent_consistency") == (0, 0)


@pytest.mark.parametrize("changes", [{"final": False}, {"part": JudgedPart.ESCALATED}, {"subject": SubjectKind.TRACE}])
def test_sessions_that_go_on_or_were_not_drawn_at_random_do_not_count(changes: dict[str, Any]) -> None:
    past = PastSessions()
    past.take_news(News(evaluations=[ended(**changes)]))
    assert past.count("planner", "shop", "agent_reliability") == (0, 0)


def test_the_newest_sessions_of_an_agent_count_and_the_newest_agents_are_kept() -> None:
    past = PastSessions()
    past.remember(PastSession("planner", "shop", "r", low=number < 10) for number in range(KEPT_SESSIONS + 5))
    assert past.count("planner", "shop", "r") == (KEPT_SESSIONS, 5)
    past.remember(PastSession(f"agent {number}", "shop", "r", low=True) for number in range(KEPT_AGENTS))
    assert past.count("planner", "shop", "r") == (0, 0)


def test_the_store_knows_the_sessions_of_earlier_runs(store: Store) -> None:
    for number, score in enumerate((0.9, 0.2, 0.9)):
        session_id = f"s-{number}"
        found = ended(score, subject_id=session_id, session_id=session_id).evaluation
        update = SessionUpdate(state=record(session_id), evaluations=[found])
        store.commit(Commit(sessions={session_id: update}))
    assert store.past_sessions(10) == [], "they go on"
    for number in (1, 0, 2):
        store.finalize([f"s-{number}"])
    low, other = (PastSession("planner", "shop", "agent_reliability", is_low) for is_low in (True, False))
    assert store.past_sessions(10) == [low, other, other]
    assert store.past_sessions(2) == [other, other]
