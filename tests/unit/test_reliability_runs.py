"""Runs put together from traces, reports and scores."""

import random
from dataclasses import replace
from typing import Any

import pytest
from agenteval_collector.figures.assembled_run import (
    NO_OUTCOME,
    UNJUDGED,
    UNKNOWN_CONDITION,
    UNSURE,
    AssembledRun,
    assemble,
)
from agenteval_collector.model.runs import RunTrace, StoredRun, Violation
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.model import RunIdentity
from otel_agenteval.outcome import Status

RUN = RunIdentity(task_id="refund", run_id="1")
LEAK = Violation(constraint="no_pii_exposure", severity="medium", evidence="EMAIL in an answer")


def trace(number: int, **facts: Any) -> RunTrace:
    given = {
        "trace_id": f"{number:032x}",
        "session_id": "s-1",
        "run": RUN,
        "agent": "clerk",
        "service": "office",
        "service_version": "1",
        "started_at": number,
        "success": None,
        "confidence": None,
        "actions": (),
        "seconds": 1.0,
        "model_calls": 0,
        "model_seconds": 0.0,
        "errors": 0,
        "usd": 0.0,
        "violations": (),
    }
    return RunTrace(**{**given, **facts})


def stored(*traces: RunTrace, **more: Any) -> StoredRun:
    given: dict[str, Any] = {
        "success": None,
        "confidence": None,
        "completed": {},
        "confidences": {},
        "judged": {},
        "run": RUN,
    }
    return StoredRun(agent="clerk", service="office", service_version="1", traces=traces, **{**given, **more})


def assembled(*traces: RunTrace, **more: Any) -> AssembledRun:
    found = assemble(stored(*traces, **more))
    assert isinstance(found, AssembledRun)
    return found


FIRST, LAST = f"{1:032x}", f"{2:032x}"


@pytest.mark.parametrize(
    ("run", "success", "estimated"),
    [
        pytest.param(
            stored(trace(1, success=False), success=True, completed={FIRST: False}), True, False, id="reported"
        ),
        pytest.param(
            stored(trace(1, success=True), trace(2), completed={LAST: False}), True, False, id="by an attribute"
        ),
        pytest.param(
            stored(trace(1, success=False), trace(2, success=True)),
            True,
            False,
            id="by the last attribute",
        ),
        pytest.param(
            stored(trace(1), trace(2), completed={FIRST: False, LAST: True}),
            True,
            True,
            id="estimated by the last",
        ),
    ],
)
def test_outcome_is_what_was_said_else_estimated(run: StoredRun, success: bool, estimated: bool) -> None:
    found = assemble(run)
    assert isinstance(found, AssembledRun)
    assert (found.run.success, found.outcome_estimated) == (success, estimated)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        pytest.param(stored(trace(1)), NO_OUTCOME, id="nobody knows"),
        pytest.param(stored(trace(1), trace(2), completed={FIRST: True}), NO_OUTCOME, id="only of an earlier trace"),
        pytest.param(
            stored(trace(1), success=True, run=replace(RUN, condition="sunday")),
            UNKNOWN_CONDITION,
            id="a condition of the application's own",
        ),
    ],
)
def test_a_run_without_outcome_is_no_failure(run: StoredRun, reason: str) -> None:
    assert assemble(run) == reason


@pytest.mark.parametrize(
    ("run", "confidence", "estimated"),
    [
        pytest.param(stored(trace(1, confidence=0.1), success=True, confidence=0.9), 0.9, False, id="reported"),
        pytest.param(
            stored(trace(1, confidence=0.4), trace(2), success=True, confidences={LAST: 0.7}),
            0.4,
            False,
            id="span",
        ),
        pytest.param(
            stored(trace(1), trace(2), success=True, confidences={FIRST: 0.5, LAST: 1.0}),
            0.75,
            True,
            id="mean score",
        ),
        pytest.param(stored(trace(1), success=True), None, False, id="nothing stands in for it"),
        pytest.param(stored(trace(1, confidence=0.0), success=True), 0.0, False, id="a confidence of zero is one"),
    ],
)
def test_confidence_is_what_was_said_else_estimated(run: StoredRun, confidence: float | None, estimated: bool) -> None:
    found = assemble(run)
    assert isinstance(found, AssembledRun)
    assert (found.run.confidence, found.confidence_estimated) == (confidence, estimated)


def test_a_run_adds_up_its_traces() -> None:
    run = assembled(
        trace(2, actions=("book",), seconds=2.0, model_calls=1, model_seconds=3.0, errors=1, usd=0.02),
        trace(1, actions=("search", "read"), seconds=1.5, model_calls=3, model_seconds=1.0, usd=0.01),
        success=True,
    ).run
    assert run.actions == ("search", "read", "book")
    assert run.resources == {
        "time": 3.5,
        "api_calls": 4.0,
        "num_actions": 3.0,
        "num_errors": 1.0,
        "call_latency": 1.0,
        "cost": 0.03,
    }


def test_what_was_not_measured_is_absent() -> None:
    assert "call_latency" not in assembled(trace(1), success=True).run.resources
    unpriced = assembled(trace(1, model_calls=1, usd=0.01), trace(2, model_calls=1, usd=None), success=True)
    assert "cost" not in unpriced.run.resources


def test_violations_count_once_and_a_trace_nobody_looked_at_is_no_evidence() -> None:
    both = assembled(trace(1, violations=(LEAK,)), trace(2, violations=(LEAK,)), success=True)
    assert both.run.violations == (("no_pii_exposure", "medium"),)
    assert both.evidence == (LEAK,)
    assert assembled(trace(1), success=True).run.violations == ()
    assert assembled(trace(1, violations=(LEAK,)), trace(2, violations=None), success=True).run.violations is None


def test_what_a_detector_found_counts_beside_the_judges_word() -> None:
    refund = Violation(constraint="no_refunds", severity="high", evidence="I will refund you")
    traces = trace(1, violations=(LEAK,)), trace(2)
    partly = assembled(*traces, success=True, judged={LAST: [refund]})
    assert (partly.judged, partly.evidence) == (False, (LEAK, refund))
    wholly = assembled(*traces, success=True, judged={FIRST: [], LAST: [refund]})
    assert (wholly.judged, wholly.evidence) == (True, (LEAK, refund))
    assert wholly.run.violations == (("no_pii_exposure", "medium"), ("no_refunds", "high"))


def test_what_an_earlier_trace_was_told_is_no_disclosure() -> None:
    leak = replace(LEAK, values=("a", "b"))
    told, half = trace(1, said=("a", "b")), trace(1, said=("a",))
    assert assembled(told, trace(2, violations=(leak,)), success=True).run.violations == ()
    assert assembled(half, trace(2, violations=(leak,)), success=True).evidence == (leak,)
    assert assembled(trace(1, violations=(leak,)), trace(2, said=("a", "b")), success=True).evidence == (leak,)


@pytest.mark.parametrize(("severity", "worst"), [("low", "medium"), ("medium", "medium"), ("critical", "critical")])
def test_of_each_constraint_the_worst_violation_counts(severity: str, worst: str) -> None:
    judged = Violation(constraint=LEAK.constraint, severity=severity, evidence="ann@example.org")
    found = assembled(trace(1, violations=(LEAK,)), success=True, judged={FIRST: [judged]})
    assert found.run.violations == ((LEAK.constraint, worst),)


def test_a_trace_that_only_the_judge_looked_at_was_looked_at() -> None:
    traces = trace(1, violations=None), trace(2, violations=None)
    assert assembled(*traces, success=True, judged={FIRST: []}).run.violations is None
    assert assembled(*traces, success=True, judged={FIRST: [], LAST: []}).run.violations == ()


@pytest.mark.parametrize("status", [Status.PENDING, Status.FAILED, Status.OVER_BUDGET, Status.SAMPLED_OUT])
def test_where_the_judge_has_not_spoken_nothing_is_estimated(status: Status) -> None:
    assert assemble(stored(trace(1), unjudged={FIRST: status})) == UNJUDGED[status]
    found = assembled(trace(1), trace(2), success=True, confidences={FIRST: 0.5}, unsure={LAST: status})
    assert (found.run.confidence, found.confidence_estimated, found.no_confidence) == (None, False, UNSURE[status])


def test_a_trace_with_nothing_to_judge_takes_no_confidence_from_the_others() -> None:
    found = assembled(trace(1), trace(2), success=True, confidences={FIRST: 0.5}, unsure={LAST: Status.NO_CONTENT})
    assert (found.run.confidence, found.no_confidence) == (0.5, None)


@given(
    numbers=st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 10), st.booleans()), min_size=1, max_size=8),
    seed=st.integers(),
)
def test_the_order_of_traces_makes_no_difference(numbers: list[tuple[float, float, bool]], seed: int) -> None:
    traces = [
        trace(number, seconds=seconds, usd=usd, model_calls=1, success=success, actions=(f"tool {number}",))
        for number, (seconds, usd, success) in enumerate(numbers, 1)
    ]
    scores = {each.trace_id: random.Random(seed).random() for each in traces}
    shuffled = random.Random(seed).sample(traces, len(traces))
    assert assemble(stored(*shuffled, confidences=scores)) == assemble(stored(*traces, confidences=scores))
