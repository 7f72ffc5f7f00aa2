"""What a judge fails is grouped by what its reasons mean: a problem for each meaning."""

import json
import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import pytest
from agenteval_collector.evaluation.judged_reasons import MOST_SHAPES, JudgedReasons
from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.problem import SHAPE

from otel_agenteval.outcome import Evaluation, Method, Score
from tests.support.evaluations import evaluation

REASONS: Mapping[str, Mapping[str, Sequence[str]]] = json.loads(
    (Path(__file__).parents[1] / "data" / "judge_reasons.json").read_text()
)
"""Reasons by half, and by the problem that a person would file them under."""


def failed(reason: str, agent: str = "planner", value: float = 0.2) -> Evaluation:
    return evaluation(name="task_completion", method=Method.LLM, outcome=Score(value=value, reason=reason), agent=agent)


def nothing(whose: AgentKey, name: str) -> Sequence[str]:
    return ()


def shapes(reasons: JudgedReasons, *texts: str) -> list[object]:
    return [each.outcome.metadata.get(SHAPE) for each in reasons.grouped([failed(text) for text in texts])]


@pytest.mark.parametrize("half", ["tuned", "aside"])
def test_reasons_of_one_meaning_are_together_and_others_are_hardly_ever(half: str) -> None:
    together = apart = mixed = 0
    texts = [(label, text) for label, texts in REASONS[half].items() for text in texts]
    for seed in range(10):
        order = random.Random(seed).sample(texts, len(texts))
        found = shapes(JudgedReasons(nothing), *(text for _, text in order))
        for (one, its), (other, others) in combinations(zip((label for label, _ in order), found, strict=True), 2):
            together += one == other and its == others
            apart += one == other and its != others
            mixed += one != other and its == others
    assert together / (together + mixed) > 0.95
    assert together / (together + apart) > 0.5


def test_a_restart_goes_on_with_the_problems_that_are_stored() -> None:
    stored = {("planner", "task_completion"): ["No refund was made although the customer requested one"]}
    again = JudgedReasons(lambda whose, name: stored.get((whose.agent or "", name), ()))
    [same, other] = shapes(again, "The agent never issued the refund.", "It wrote to the wrong file.")
    assert same == stored["planner", "task_completion"][0]
    assert other == "It wrote to the wrong file."


def test_agents_have_problems_of_their_own_and_what_passes_has_none() -> None:
    reasons = JudgedReasons(nothing)
    first, second, passed = reasons.grouped(
        [failed("No refund was made."), failed("The refund was not made.", agent="other"), failed("Good.", value=0.9)]
    )
    assert first.outcome.metadata[SHAPE] == "No refund was made."
    assert second.outcome.metadata[SHAPE] == "The refund was not made."
    assert passed == failed("Good.", value=0.9)


def test_names_and_numbers_are_no_part_of_a_shape_and_a_deletion_forgets_it() -> None:
    reasons = JudgedReasons(nothing)
    assert shapes(reasons, "No refund for order 1234567 was made.") == ["No refund for order … was made."]
    reasons.forget()
    assert shapes(reasons, "The refund was not made.") == ["The refund was not made."]


def test_a_reason_without_words_stays_with_its_evaluator() -> None:
    assert shapes(JudgedReasons(nothing), "") == [None]


def test_reasons_that_are_compared_with_are_bounded() -> None:
    stored = [f"{'x' * (1 + number)} fails" for number in range(MOST_SHAPES)]
    reasons = JudgedReasons(lambda whose, name: stored)
    assert shapes(reasons, "The order was not cancelled.") == ["The order was not cancelled."]
    assert len(reasons._known.get((AgentKey("planner", "shop"), "task_completion")) or ()) == MOST_SHAPES
