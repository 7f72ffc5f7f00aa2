"""What a session's traces say together: its course, and how often it was correct by ground truth."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.app.scoring import EvaluationCore
from agenteval_collector.cli.dataset import Dataset
from agenteval_collector.evaluation.ports import EverySession
from agenteval_collector.evaluation.referrals import Referrals

from otel_agenteval.metrics import pass_at_k, pass_hat_k, pass_k_posterior, session_trend
from otel_agenteval.model import ExpectedTool, GroundTruth
from tests.support.otlp import trace_id
from tests.support.referring import Referring, judged
from tests.support.runs import run_trace
from tests.support.scoring import Scoring

pytestmark = pytest.mark.databases


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path)
    yield made
    made.close()


def test_interactions_with_ground_truth_make_pass_k_of_a_conversation(scoring: Scoring) -> None:
    for number, tools in enumerate((("find",), ("find",), ("pay",)), 1):
        scoring.put(run_trace(number, session="s", tools=tools, agenteval__expected_tools='["find"]'))
    scoring.put(run_trace(4, session="s"))
    found = scoring.session("s")["interactions"]
    assert (found["interactions"], found["correct"], found["conversation_correct"]) == (3, 2, False)
    for k in (1, 2, 3):
        assert found["pass_at_k"]["plugin"][str(k)] == pass_at_k(3, 2, k)
        assert found["pass_hat_k"]["unbiased"][str(k)] == pass_hat_k(3, 2, k, "unbiased")
        posterior = pass_k_posterior(3, 2, k)
        assert found["posterior"][str(k)]["pass_hat_k"] == posterior.pass_hat_k
        assert tuple(found["posterior"][str(k)]["pass_at_k_interval"]) == posterior.pass_at_k_interval
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("tools", "answered", "correct"),
    [
        pytest.param(("find",), "It was 42 euros.", 1, id="tools and answer"),
        pytest.param(("find",), "It was 142 euros.", 0, id="another answer"),
        pytest.param(("find", "look"), "42", 0, id="a tool too many"),
        pytest.param(("find",), "", 0, id="an empty answer"),
        pytest.param(("find",), None, None, id="no answer recorded"),
    ],
)
def test_an_interaction_is_correct_if_its_tools_and_its_answer_are(
    scoring: Scoring, tools: tuple[str, ...], answered: str | None, correct: int | None
) -> None:
    truth: dict[str, Any] = {"agenteval__expected_tools": '["find"]', "agenteval__expected_answer": "42"}
    scoring.put(run_trace(1, session="s", tools=tools, answered=answered, **truth))
    found = scoring.session("s")["interactions"]
    if correct is None:
        assert found is None
    else:
        assert (found["interactions"], found["correct"], found["conversation_correct"]) == (1, correct, correct == 1)


def test_a_conversation_is_correct_only_if_all_its_interactions_are(scoring: Scoring) -> None:
    for number, answered in enumerate(("It is Lima.", "Cusco, of course"), 1):
        expected = "Lima" if number == 1 else "cusco"
        scoring.put(run_trace(number, session="s", answered=answered, agenteval__expected_answer=expected))
    assert scoring.session("s")["interactions"]["conversation_correct"] is True
    scoring.put(run_trace(3, session="s", answered="Quito", agenteval__expected_answer="Lima"))
    found = scoring.session("s")["interactions"]
    assert (found["interactions"], found["correct"], found["conversation_correct"]) == (3, 2, False)
    [outcome] = [each for each in scoring.trace(trace_id(3).hex())["outcomes"] if each["name"] == "answer_correctness"]
    assert (outcome["score"], outcome["success"], outcome["threshold"]) == (0.0, False, 0.7)


def test_without_ground_truth_there_is_neither_outcome_nor_conversation(scoring: Scoring) -> None:
    scoring.put(run_trace(1, session="s"))
    assert scoring.session("s")["interactions"] is None
    names = [each["name"] for each in scoring.trace(trace_id(1).hex())["outcomes"]]
    assert "tool_use_correctness" not in names


def test_a_dataset_says_what_the_traces_do_not(scoring: Scoring) -> None:
    tools = (ExpectedTool(name="find"),)
    dataset = Dataset(
        expected={("refund", None, None): GroundTruth(tools), ("refund", "2", "baseline"): GroundTruth(())}
    )
    core = EvaluationCore(
        scoring.settings,
        scoring.store,
        scoring.clock,
        scoring.telemetry,
        Referrals([], None),
        scoring.earlier,
        EverySession(),
        (),
        truth=dataset,
    )
    core.stage(scoring.inbox, scoring, scored=scoring, emit=scoring).evaluate_batch(
        [
            run_trace(1, run="1", session="s", tools=("find",)),
            run_trace(2, run="2", session="s", tools=("find",)),
            run_trace(3, run="3", session="s", tools=("find",), agenteval__expected_tools='["pay"]'),
            run_trace(4, task="other", session="s", tools=("find",)),
        ]
    )
    scores = {
        outcome["score"]
        for number in (1, 2, 3, 4)
        for outcome in scoring.trace(trace_id(number).hex())["outcomes"]
        if outcome["name"] == "tool_use_correctness"
    }
    assert scores == {1.0, 0.0}
    assert scoring.session("s")["interactions"]["interactions"] == 3


def test_the_course_of_a_session_is_that_of_its_task_completion(tmp_path: Path) -> None:
    scores = {1: 0.25, 2: 1.0, 3: 0.5}
    judging = Referring({})
    scoring = Scoring(tmp_path, judging=judging)
    for number in (3, 1, 2):
        judging.outcomes = {"task_completion": judged(scores[number])}
        scoring.put(run_trace(number, session="s"))
    expected = session_trend(list(scores.values()))
    trend = scoring.session("s")["trend"]
    assert (trend["best"], trend["last"], trend["reason"]) == (expected.best, expected.last, expected.reason)
    assert (trend["stalled"], trend["regressed"]) == (None, expected.regressed)
    assert trend["evaluated"] == 3
    scoring.close()
