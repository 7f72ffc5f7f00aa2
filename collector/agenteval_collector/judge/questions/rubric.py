"""A rubric of the user's own, asked like a built-in question: one request each, with the transcript."""

from collections.abc import Sequence
from typing import Final

from agenteval_collector.config import RubricConfig
from agenteval_collector.judge.ports import Question
from agenteval_collector.judge.prompt.replies import REASON, number, record
from agenteval_collector.judge.prompt.transcript import GUIDE, told
from agenteval_collector.judge.questions.scoring import by_median, version_of
from otel_agenteval.model import Json

FORM_VERSION: Final = "3"
"""Rises with every change of what stands around the user's question."""


def rubric_version(rubric: RubricConfig) -> str:
    """Make the version of a rubric's evaluator."""
    return version_of(FORM_VERSION, [rubric.question, list(rubric.scale)])


def rubric_question(rubric: RubricConfig, transcript: list[Json], earlier: Sequence[Json] = ()) -> Question:
    """Make the question; a number on the rubric's scale is mapped to [0, 1], its worst to 0, its best to 1."""
    worst, best = rubric.scale
    return Question(
        name=rubric.name,
        version=rubric_version(rubric),
        instructions=f"{rubric.question}\n\nAnswer for the whole transcript with a number from {worst:g} (worst) to "
        f"{best:g} (best).\n\n{GUIDE}",
        data=told(transcript, earlier),
        schema=record(reason=REASON, score=number(worst, best, f"From {worst:g} to {best:g}.")),
        readings=[by_median(rubric.name, rubric.threshold, scale=rubric.scale)],
    )
