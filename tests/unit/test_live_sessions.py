from agenteval_collector.evaluation.sessions.live_sessions import LiveSessions


def touch(live: LiveSessions, session_id: str, now: float) -> None:
    live.touch(session_id, agent="planner", service="shop", scores={}, now=now)


def test_a_session_is_idle_after_its_quiet_time_and_not_before() -> None:
    live = LiveSessions(idle=10.0)
    touch(live, "s", 100.0)
    assert live.idle(109.9) == []
    assert live.idle(110.0) == ["s"]
    assert live.idle(110.0) == []


def test_a_trace_that_was_received_earlier_makes_no_session_idle_sooner() -> None:
    live = LiveSessions(idle=10.0)
    for received in (100.0, 120.0, 50.0):
        touch(live, "s", received)
    assert live.idle(129.9) == []
    assert live.idle(130.0) == ["s"]
