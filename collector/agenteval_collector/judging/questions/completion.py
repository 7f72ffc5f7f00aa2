"""task_completion: did the agent do what it was asked? Judged by the extracted task and outcome alone."""

from typing import Final

from agenteval_collector.judging.checks import unit
from agenteval_collector.judging.port import Reply
from agenteval_collector.judging.questions.scoring import (
    ByMedian,
    Reading,
    ScoringQuestion,
    number_of,
    reason_of,
    scoring_question,
)
from agenteval_collector.judging.schemas import REASON, SCORE, record

NAME: Final = "completion"
VERSION: Final = "1"

_INSTRUCTIONS: Final = """\
Compare what came of an agent's work ("outcome") with what was asked of it ("task"), and say how far the task was done.
- 1: done in full, every condition kept
- 0.75 to 0.99: done in the main, small things are missing
- 0.5 to 0.74: done in part
- 0.25 to 0.49: large parts are missing
- 0 to 0.24: not done in any way that helps
Judge the outcome, not the effort. A claim of the agent that no action in the outcome bears out counts as not done. To \
refuse rightly what must not be done, and to say so, can be the whole task."""


def completion(task: str, outcome: str, threshold: float) -> ScoringQuestion:
    """The question after the extraction."""
    return scoring_question(
        name=NAME,
        version=VERSION,
        instructions=_INSTRUCTIONS,
        data={"task": task, "outcome": outcome},
        schema=record(reason=REASON, verdict=SCORE),
        check=_check,
        readings=[
            Reading(
                evaluator="task_completion",
                threshold=threshold,
                value=_verdict,
                conclude=ByMedian(value=_verdict, reason=reason_of, metadata={"task": task, "outcome": outcome}),
            )
        ],
    )


def _verdict(reply: Reply) -> float:
    return number_of(reply, "verdict")


def _check(reply: Reply) -> None:
    unit(reply["verdict"], "reply.verdict")
