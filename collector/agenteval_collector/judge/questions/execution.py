"""Ask for confidence, step_efficiency and plan_adherence: how the agent went about its task, by the transcript.

One question serves all three. If different models are to judge them, each model gets its own question. Confidence
alone needs no more than the transcript. It is judged first, so that no other score colours it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, cast

from agenteval_collector.judge.ports import Question
from agenteval_collector.judge.prompt.fitting import EntryKind
from agenteval_collector.judge.prompt.replies import REASON, SCORE, object_schema
from agenteval_collector.judge.prompt.transcript import GUIDE
from agenteval_collector.judge.questions.scores import by_median
from otel_agenteval.model import Json

NAME: Final = "execution"
VERSION: Final = "4"

CONFIDENCE: Final = "confidence"
STEP_EFFICIENCY: Final = "step_efficiency"
PLAN_ADHERENCE: Final = "plan_adherence"

_GUIDES: Final = {
    CONFIDENCE: """\
confidence: how decisive and well founded were the agent's actions in the whole transcript?
- Decisiveness: did it act without needless hesitation, and without steps that contradict each other?
- Appropriateness: did its actions serve what the user wanted?
- Consistency: did it hold one strategy that makes sense?
- Signs against it: hedging words, contradictions, needless retries, vague answers, the same tool called with the same \
arguments again, strategies given up.
1: decisive throughout. 0.75: little hesitation, or a strategy a bit below the best. 0.5: noticeable indecision or \
inconsistency. 0.25: much uncertainty, several approaches given up. 0: uncertain throughout, or actions that \
contradict each other. Asking the user for something that only the user knows, and refusing what is not allowed, are \
no hesitation.""",
    STEP_EFFICIENCY: """\
step_efficiency: did the agent do no more than the task ("task") needed? 1 is the shortest way that this agent could \
have known; each of these lowers the score: calls of tools that repeat others or add nothing, intermediate steps \
without need, work on a guess that the task did not ask for, long reasoning that leads nowhere. A retry after an error \
that may pass is no waste. Judge the way, not whether the task was done.""",
    PLAN_ADHERENCE: """\
plan_adherence: did the agent do what its plan says, in that order, and nothing beside it? The plan is "plan" or, \
where that is null, the entries "plan" of the transcript.
- 1: exactly the plan
- 0.75: nearly all steps in order, small deviations
- 0.5: some steps skipped or in another order
- 0.25: far from the plan
- 0: what it did has little to do with the plan
Actions that the plan does not mention and steps that were skipped both count.""",
}

NAMES: Final = tuple(_GUIDES)


def execution(
    question_data: Mapping[str, Json], evaluators: Collection[str], *, task: str = "", plan: Sequence[str] = ()
) -> Question:
    """Make the question for the evaluators in `evaluators`.

    All but CONFIDENCE need the task. PLAN_ADHERENCE also needs a plan.
    """
    names = [name for name in NAMES if name in evaluators]
    facts: dict[str, Json] = {"task": task}
    planned: dict[str, Json] = {"plan": list[Json](plan)}
    about = {CONFIDENCE: {}, STEP_EFFICIENCY: facts, PLAN_ADHERENCE: facts | planned}
    data = dict(question_data)
    if names != [CONFIDENCE]:
        data = facts | data
    if PLAN_ADHERENCE in names:
        data = {"plan": None if set(plan) <= _plans(question_data) else planned["plan"]} | data
    guides = "\n\n".join(_GUIDES[name] for name in names)
    return Question(
        name=NAME,
        version=VERSION,
        instructions=f"Judge how an agent went about its work, each of these by itself.\n\n{guides}\n\n{GUIDE}",
        data=data,
        schema=object_schema(**{name: object_schema(reason=REASON, score=SCORE) for name in names}),
        readings={name: by_median(field=name, metadata=about[name]) for name in names},
    )


def _plans(question_data: Mapping[str, Json]) -> set[Json]:
    """Find the plans that the transcript shows uncut. A plan is recognised by its text."""
    items = cast("list[dict[str, Any]]", question_data["transcript"])
    return {item["text"] for item in items if item["kind"] == EntryKind.PLAN}
