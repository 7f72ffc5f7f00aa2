"""task_completion: did the agent do what it was asked? Judged by the extracted task and outcome alone."""

from typing import Final

from agenteval_collector.judge.ports import Question
from agenteval_collector.judge.prompt.replies import REASON, SCORE, record
from agenteval_collector.judge.questions.scoring import by_median
from otel_agenteval.model import Json

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


def completion(task: str, outcome: str, threshold: float) -> Question:
    """Make the question after the extraction."""
    facts: dict[str, Json] = {"task": task, "outcome": outcome}
    return Question(
        name=NAME,
        version=VERSION,
        instructions=_INSTRUCTIONS,
        data=facts,
        schema=record(reason=REASON, verdict=SCORE),
        readings=[by_median("task_completion", threshold, key="verdict", metadata=facts)],
    )
