"""Votes on a trace: judgements of their own, from the extraction to the median."""

from typing import Any

import pytest
from agenteval_collector.judge.panel import JUDGED, REQUESTS
from agenteval_collector.judge.ports import NoAnswer, OverBudget

from otel_agenteval.outcome import Score
from tests.support.judging import BACKGROUND, Script
from tests.unit.test_judging_panel import REASONED, REPLIES, WHOLE, judged, scores


def confident(*scores: float | Exception) -> dict[str, Any]:
    """Replies to the votes on confidence."""
    given = [each if isinstance(each, Exception) else {"confidence": {"score": each, "reason": "r"}} for each in scores]
    return {"execution": tuple(given)}


def test_votes_come_to_their_median_and_tell_their_spread() -> None:
    given = ({"score": 0.2, "reason": "low"}, {"score": 0.9, "reason": "high"}, {"score": 0.7, "reason": "middle"})
    script = Script({"execution": tuple({"confidence": vote} for vote in given)}, temperature=None)
    outcome = judged(WHOLE, script, {"confidence"}, votes=3)["confidence"].outcome
    assert isinstance(outcome, Score)
    assert (outcome.value, outcome.reason) == (0.7, "middle")
    assert outcome.metadata == {
        "prompt_version": "4",
        "temperature": None,
        "votes": 3,
        "spread": pytest.approx(0.7),
    }
    assert script.kept == [3]


REFUSED, BROKE = NoAnswer("refused", "no"), OverBudget("1 request an hour")


@pytest.mark.parametrize(
    ("votes", "band", "given", "score"),
    [
        pytest.param(1, 0.0, [0.5], 0.5, id="one vote"),
        pytest.param(3, 0.0, [0.1, 0.9, 0.5], 0.5, id="three votes"),
        pytest.param(1, 0.1, [0.55, 0.4, 0.3], 0.4, id="two more near the threshold"),
        pytest.param(1, 0.125, [0.625, 0.4, 0.3], 0.4, id="at the edge of the band"),
        pytest.param(1, 0.125, [0.626], 0.626, id="none more outside the band"),
        pytest.param(3, 0.1, [0.0, 0.5, 1.0, 0.2, 0.1], 0.2, id="the median counts"),
        pytest.param(3, 0.1, [0.5, 0.9, 0.8], 0.8, id="not a single vote"),
        pytest.param(3, 0.0, [0.1, REFUSED, 0.5], 0.3, id="a refused vote is none"),
        pytest.param(3, 0.0, [0.1, BROKE, BROKE], 0.1, id="nor one over budget"),
        pytest.param(1, 0.1, [0.5, BROKE, REFUSED], 0.5, id="the first vote stands without second looks"),
    ],
)
def test_votes(votes: int, band: float, given: list[float | Exception], score: float) -> None:
    script = Script(confident(*given))
    assert scores(judged(WHOLE, script, {"confidence"}, votes=votes, band=band)) == {"confidence": pytest.approx(score)}
    assert script.votes == list(range(len(given)))


def test_votes_are_independent_from_the_extraction_on() -> None:
    extractions = tuple({"task": f"task {vote}", "outcome": f"outcome {vote}"} for vote in range(3))
    verdicts = tuple({"verdict": verdict, "reason": "r"} for verdict in (0.1, 0.9, 0.6))
    script = Script({"extract": extractions, "completion": verdicts})
    outcome = judged(WHOLE, script, {"task_completion"}, votes=3)["task_completion"].outcome
    asked = [
        {key: question.data[key] for key in question.data.keys() - BACKGROUND}
        for question, _ in script.asked
        if question.name == "completion"
    ]
    assert asked == [{"task": f"task {vote}", "outcome": f"outcome {vote}"} for vote in range(3)]
    assert isinstance(outcome, Score)
    assert (outcome.value, outcome.metadata["task"]) == (0.6, "task 2")


CORRECT = {"tool_correctness": {"score": 1, "reason": "t"}}
"""A reply to `tools` about the choice of tools alone."""


def completions(*verdicts: float) -> dict[str, Any]:
    """Replies to all questions, of which those on completion differ from vote to vote."""
    return {**REPLIES, "completion": tuple({"verdict": each, "reason": "r"} for each in verdicts)}


def test_a_second_look_asks_only_for_what_is_undecided() -> None:
    script = Script(completions(0.5, 0.8))
    found = judged(WHOLE, script, ("task_completion", "confidence"), band=0.05)
    assert scores(found) == {"task_completion": pytest.approx(0.65), "confidence": 0.9}
    assert sorted(script.names) == ["completion"] * 2 + ["execution"] + ["extract"] * 2


@pytest.mark.parametrize(
    ("wanted", "votes", "looks", "requests"),
    [
        pytest.param(JUDGED, 1, set(), 5, id="none where five requests are made"),
        pytest.param(JUDGED, 3, set(), 15, id="nor where all votes took five"),
        pytest.param({"confidence"}, 1, {"execution"}, 3, id="two of one request"),
        pytest.param({"task_completion"}, 1, {"extract", "completion"}, 4, id="one of two, as two more leave one"),
        pytest.param({"task_completion"}, 2, {"extract", "completion"}, 8, id="times the votes"),
    ],
)
def test_second_looks_keep_within_five_requests_for_each_vote(
    wanted: set[str], votes: int, looks: set[str], requests: int
) -> None:
    script = Script(REPLIES)
    judged(WHOLE, script, wanted, votes=votes, band=0.5)
    assert len(script.asked) == requests <= REQUESTS * votes
    more = {question.name for (question, _), vote in zip(script.asked, script.votes, strict=True) if vote >= votes}
    assert more == looks


def test_the_nearest_to_its_threshold_gets_the_second_look() -> None:
    script = Script({**completions(0.75, 0.9), **confident(0.51, 0.1, 0.2), "tools": CORRECT})
    wanted = ("task_completion", "confidence", "tool_correctness")
    thresholds = {"task_completion": 0.7, "confidence": 0.5, "tool_correctness": 0.5}
    found = judged(WHOLE, script, wanted, band=0.1, thresholds=thresholds)
    assert len(script.asked) == REQUESTS
    assert scores(found) == {
        "confidence": pytest.approx((0.51 + 0.1) / 2),
        "task_completion": 0.75,
        "tool_correctness": 1.0,
    }


def test_a_malformed_reply_leaves_less_for_a_second_look() -> None:
    class Insisting(Script):
        @property
        def requests(self) -> int:
            return len(self.asked) + 2

    script = Insisting(confident(0.5, 0.4, 0.3))
    judged(WHOLE, script, {"confidence"}, band=0.1)
    assert script.votes == [0, 1, 2]
    script = Insisting(completions(0.5, 0.8))
    judged(WHOLE, script, {"task_completion"}, band=0.1)
    assert script.votes == [0, 0]


@pytest.mark.parametrize(
    ("plans", "score"),
    [
        pytest.param([["a"], [], ["a"]], 0.3, id="most votes found one"),
        pytest.param([["a"], [], []], None, id="most found none"),
    ],
)
def test_whether_there_is_a_plan_is_a_matter_of_most_votes(plans: list[list[str]], score: float | None) -> None:
    script = Script({**REPLIES, "extract": tuple({"task": "T", "plan": plan} for plan in plans)})
    assert scores(judged(REASONED, script, {"plan_quality"}, votes=3)).get("plan_quality") == score
