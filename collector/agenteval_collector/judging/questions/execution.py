"""step_efficiency and plan_adherence: how the agent went about its task, by the transcript.

One question for both, or one for each where different models are to judge them.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from agenteval_collector.judging.checks import unit
from agenteval_collector.judging.port import Reply
from agenteval_collector.judging.questions.scoring import (
    ByMedian,
    Reading,
    ScoringQuestion,
    number_of,
    part_of,
    reason_of,
    scoring_question,
)
from agenteval_collector.judging.schemas import REASON, SCORE, record
from agenteval_collector.judging.transcript import GUIDE
from otel_agenteval.model import Json

NAME: Final = "execution"
VERSION: Final = "1"

STEP_EFFICIENCY: Final = "step_efficiency"
PLAN_ADHERENCE: Final = "plan_adherence"

_GUIDES: Final = {
    STEP_EFFICIENCY: """\
step_efficiency: did the agent do no more than the task ("task") needed? 1 is the shortest way that this agent could \
have known; each of these lowers the score: calls of tools that repeat others or add nothing, intermediate steps \
without need, work on a guess that the task did not ask for, long reasoning that leads nowhere. A retry after an error \
that may pass is no waste. Judge the way, not whether the task was done.""",
    PLAN_ADHERENCE: """\
plan_adherence: did the agent do what its plan ("plan") says, in that order, and nothing beside it?
- 1: exactly the plan
- 0.75: nearly all steps in order, small deviations
- 0.5: some steps skipped or in another order
- 0.25: far from the plan
- 0: what it did has little to do with the plan
Actions that the plan does not mention and steps that were skipped both count.""",
}


def execution(transcript: list[Json], task: str, plan: list[str], thresholds: Mapping[str, float]) -> ScoringQuestion:
    """The question for the evaluators in `thresholds`; PLAN_ADHERENCE needs a plan."""
    names = [name for name in _GUIDES if name in thresholds]
    steps: list[Json] = list(plan)
    about: dict[str, dict[str, Json]] = {
        STEP_EFFICIENCY: {"task": task},
        PLAN_ADHERENCE: {"task": task, "plan": steps},
    }
    data: dict[str, Json] = {"task": task, "transcript": transcript}
    if PLAN_ADHERENCE in names:
        data = {"plan": steps, **data}
    guides = "\n\n".join(_GUIDES[name] for name in names)
    return scoring_question(
        name=NAME,
        version=VERSION,
        instructions=f"Judge how an agent went about its task, each of these by itself.\n\n{guides}\n\n{GUIDE}",
        data=data,
        schema=record(**{name: record(reason=REASON, score=SCORE) for name in names}),
        check=partial(_check, names),
        readings=[
            Reading(
                evaluator=name,
                threshold=thresholds[name],
                value=partial(_score, name),
                conclude=ByMedian(value=partial(_score, name), reason=partial(_reason, name), metadata=about[name]),
            )
            for name in names
        ],
    )


def _score(name: str, reply: Reply) -> float:
    return number_of(part_of(reply, name), "score")


def _reason(name: str, reply: Reply) -> str | None:
    return reason_of(part_of(reply, name))


def _check(names: list[str], reply: Reply) -> None:
    for name in names:
        unit(part_of(reply, name)["score"], f"reply.{name}.score")
