from agenteval_collector.evaluation.sessions.live_sessions import MAX_ENDINGS, Endings


def test_a_session_ends_when_the_hold_is_over() -> None:
    endings = Endings(hold=3.0)
    endings.note_end("a", 10.0)
    endings.note_end("b", 11.0)
    assert endings.over(12.9) == []
    assert "a" in endings
    assert endings.over(13.0) == ["a"]
    assert ("a" in endings, "b" in endings) == (False, True)
    assert endings.over(14.0) == ["b"]
    assert endings.over(99.0) == []


def test_a_session_that_is_reported_again_ends_later() -> None:
    endings = Endings(hold=3.0)
    endings.note_end("a", 10.0)
    endings.note_end("b", 11.0)
    endings.note_end("a", 12.0)
    assert endings.over(14.0) == ["b"]
    assert endings.over(15.0) == ["a"]


def test_the_first_of_too_many_are_over_at_once() -> None:
    endings = Endings(hold=3.0)
    for number in range(MAX_ENDINGS + 2):
        endings.note_end(str(number), 10.0)
    assert endings.over(10.0) == ["0", "1"]
    assert endings.over(10.0) == []
