"""What the functions refuse, and that what they give stays as it is."""

import math
from typing import Any

import pytest

from otel_agenteval.metrics import (
    Run,
    ToolUse,
    agent_consistency,
    agent_reliability,
    jaccard_similarity,
    pass_at_k,
    pass_k_posterior,
    reliability_report,
    session_trend,
    tool_use_correctness,
)

NOTHING: Any = None
TEXT: Any = "x"
FIVE: Any = 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(lambda: reliability_report(NOTHING), "runs are None", id="no runs"),
        pytest.param(lambda: reliability_report([1]), "runs have 1 at place 0, not a Run", id="a number for a run"),
        pytest.param(lambda: reliability_report([], severity_weights=TEXT), "severity_weights are", id="weights"),
        pytest.param(lambda: pass_k_posterior(5, 2, 2, level=TEXT), "level is 'x'", id="level"),
        pytest.param(lambda: pass_at_k(3, 1, True), "k is True", id="a truth for a count"),
        pytest.param(lambda: agent_reliability([5]), "signals of trace 0 are 5", id="signals of a trace"),
        pytest.param(lambda: agent_consistency(TEXT), "signals are 'x'", id="signals"),
        pytest.param(lambda: session_trend(NOTHING), "scores are None", id="scores"),
        pytest.param(lambda: session_trend([True]), "score of trace 0 is True", id="a truth for a score"),
        pytest.param(lambda: jaccard_similarity(NOTHING, "a"), "the text is None", id="a text"),
        pytest.param(lambda: tool_use_correctness(["a"], ["a"]), "used have 'a' at place 0, not a ToolUse", id="tools"),
        pytest.param(lambda: ToolUse(FIVE), "name is 5", id="a tool's name"),
    ],
)
def test_what_no_function_can_take_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_iterators_are_read_once() -> None:
    run = Run("t", "1", True, actions=(name for name in "ab"), violations=(each for each in [("c", "low")]))  # type: ignore[arg-type]
    assert (run.actions, run.violations) == (("a", "b"), (("c", "low"),))


def test_a_report_cannot_be_changed() -> None:
    report = reliability_report([Run("t", "1", True), Run("t", "2", False)])
    for mapping in (report.metrics, report.intervals, report.counts, report.by_task["t"], report.pass_hat_k):
        with pytest.raises(TypeError, match="does not support item assignment"):
            mapping["R"] = 1.0


@pytest.mark.parametrize("n", [10**11, 10**14, 10**18])
def test_the_posterior_of_very_many_attempts_is_narrow_and_defined(n: int) -> None:
    found = pass_k_posterior(n, n // 10, 1)
    assert found.pass_hat_k_interval is not None
    width = 1.959964 * math.sqrt(0.09 / n)
    assert found.pass_hat_k_interval == pytest.approx((0.1 - width, 0.1 + width), abs=1e-16 + width * 1e-4)
