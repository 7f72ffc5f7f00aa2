from agenteval_collector.evaluation.sessions.past_sessions import LEVELS_EVERY, PAST_EVERY, StoredSessions
from agenteval_collector.model.sessions import PastSession, SessionLevel

from tests.support.clock import ManualClock


def level(agent: str, active: int) -> SessionLevel:
    return SessionLevel(agent=agent, service=None, evaluator=None, active=active, low=0)


def test_levels_are_read_again_after_a_while_and_fall_to_zero() -> None:
    clock, stored = ManualClock(), [level("a", 2), level("b", 1)]
    sessions = StoredSessions(lambda: list(stored), tuple, clock)
    assert [*sessions.session_levels()] == [level("a", 2), level("b", 1)]
    del stored[0]
    assert [*sessions.session_levels()] == [level("a", 2), level("b", 1)]
    clock.advance(LEVELS_EVERY)
    assert [*sessions.session_levels()] == [level("b", 1), level("a", 0)]
    clock.advance(LEVELS_EVERY)
    assert [*sessions.session_levels()] == [level("b", 1), level("a", 0)]


def test_past_sessions_are_counted_as_they_were_read_last() -> None:
    clock, past = ManualClock(), [PastSession("a", None, "e", True)]
    sessions = StoredSessions(tuple, lambda: list(past), clock)
    assert sessions.count("a", None, "e") == (1, 1)
    past.append(PastSession("a", None, "e", False))
    assert sessions.count("a", None, "e") == (1, 1)
    clock.advance(PAST_EVERY)
    assert sessions.count("a", None, "e") == (2, 1)
