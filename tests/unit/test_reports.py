"""`session()` and `run()`: what they refuse and what they leave behind."""

import math

import pytest

import otel_agenteval
from otel_agenteval.context import SpanIdentity, identity_in


@pytest.mark.parametrize("bad", ["", None, 7])
def test_ids_that_name_nothing_are_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="session_id is"), otel_agenteval.session(bad):  # type: ignore[arg-type]
        pass
    with pytest.raises(ValueError, match="task_id is"):
        otel_agenteval.run(bad, "r")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="run_id is"):
        otel_agenteval.run("t", bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bad", "said"),
    [("x" * 1025, "has 1025 characters: give 1024 at most"), ("r\ud800", "lone surrogate")],
    ids=["too long", "no UTF-8"],
)
def test_ids_that_no_report_can_hold_are_refused(bad: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"task_id .*{said}"):
        otel_agenteval.run(bad, "r")
    with pytest.raises(ValueError, match=f"run_id .*{said}"):
        otel_agenteval.run("t", bad)


def test_unknown_condition_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="'chaos': give one of baseline, fault, structural, prompt"):
        otel_agenteval.run("t", "r", "chaos")


def test_report_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="give success=, confidence=, or both"):
        otel_agenteval.run("t", "r").report()


@pytest.mark.parametrize("confidence", [-0.01, 1.01, math.nan, math.inf, "0.8"])
def test_confidence_that_is_no_number_in_range_is_refused(confidence: object) -> None:
    with pytest.raises(ValueError, match="give one in \\[0, 1\\]"):
        otel_agenteval.run("t", "r").report(confidence=confidence)  # type: ignore[arg-type]


@pytest.mark.parametrize("success", ["no", 1, 0.5, b""])
def test_success_that_is_no_bool_is_refused_by_name(success: object) -> None:
    with pytest.raises(ValueError, match=f"run 'r' has success {success!r}: give True or False"):
        otel_agenteval.run("t", "r").report(success=success)  # type: ignore[arg-type]


def test_report_without_a_processor_is_said_to_go_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    otel_agenteval.run("t", "r-lost").report(success=True)
    assert "'r-lost' goes nowhere" in caplog.text


def test_session_and_run_nest_and_end() -> None:
    assert identity_in(None) is None
    with otel_agenteval.session("s1", "u1"):
        with otel_agenteval.run("t", "r", "fault"):
            assert identity_in(None) == SpanIdentity("s1", "u1", "t", "r", "fault")
            with otel_agenteval.session("s2"):
                assert identity_in(None) == SpanIdentity("s2", None, "t", "r", "fault")
        assert identity_in(None) == SpanIdentity("s1", "u1")
    assert identity_in(None) is None
