"""Make the questions that end in one score: about facts alone, about a whole session, or a rubric.

- completion (task_completion): did the agent do what it was asked? It sees only the extracted task and outcome.
- plan (plan_quality): was the plan a good one, whatever came of it? It sees only the task and the plan.
- goal (goal_success): what did the user want of the session, was it reached, and where did it fail?
- A rubric is asked like a built-in question: one request each, with the transcript.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Final

from agenteval_collector.config.judge import RubricConfig
from agenteval_collector.judge.ports import Question, Reading, Reply
from agenteval_collector.judge.prompt.replies import REASON, SCORE, TEXT, number, object_schema, whole
from agenteval_collector.judge.prompt.transcript import GUIDE, entries
from agenteval_collector.model.judge_jobs import FAILED_AGENT, FAILED_SPAN, FAILED_STEP, FAILED_TURN, GOAL, GOAL_SUCCESS
from otel_agenteval.model import Json, Trace
from otel_agenteval.outcome import Score

COMPLETION: Final = "completion"
PLAN: Final = "plan"
COMPLETION_VERSION: Final = "2"
PLAN_VERSION: Final = "2"
GOAL_VERSION: Final = "2"
RUBRIC_FORM_VERSION: Final = "4"
"""The version of the text around the user's question. It rises with every change of that text."""

_COMPLETION: Final = """\
Compare what came of an agent's work ("outcome") with what was asked of it ("task"), and say how far the task was done.
- 1: done in full, every condition kept
- 0.75 to 0.99: done in the main, small things are missing
- 0.5 to 0.74: done in part
- 0.25 to 0.49: large parts are missing
- 0 to 0.24: not done in any way that helps
Judge the outcome, not the effort. A claim of the agent that no action in the outcome bears out counts as not done. To \
refuse rightly what must not be done, and to say so, can be the whole task."""

_PLAN: Final = """\
Judge an agent's plan for a task by itself; whether it was followed does not matter.
- Completeness: does it cover all of the task?
- Coherence: do its steps follow from one another in an order that works?
- Economy: could it be shorter?
- Detail: does it say enough to act on, and no more?
- Alignment: does it aim at what the user wanted?
Guide
- 1: complete, coherent, economical
- 0.75: good, with small flaws
- 0.5: it would do, with noticeable gaps
- 0.25: weak, with serious flaws
- 0: it does not address the task"""

_GOAL: Final = """\
The transcript is a whole session of a user with an agent. Say whether the user got what they wanted of it.
- goal: what the user wanted of the session, in one or two sentences, with every condition that the user set; as it \
was at last, where the user changed it
- reason: why it was reached or was not
- failed_turn: the number of the turn in which it went wrong first, 0 where it did not
- failed_step: the "n" of the first step that was wrong, without which it would have gone well; 0 where it is not known
- failed_agent: the agent that took that step, as "agents" names it; an empty text where it is not known
- score: 1: reached in full. 0.5: in part. 0: not at all, or something else was done. A claim of the agent that no \
action bears out does not count. To refuse rightly what must not be done reaches what can be reached.

"""


def version_of(form_version: str, question_data: Json) -> str:
    """Make the version of a question that users write.

    Another text, scale or constraint gives another version.
    """
    return f"{form_version}-{hashlib.sha256(json.dumps(question_data).encode()).hexdigest()[:8]}"


def by_median(
    *,
    field: str | None = None,
    key: str = "score",
    scale: tuple[float, float] = (0.0, 1.0),
    metadata: Mapping[str, Json] | Callable[[Reply], Mapping[str, Json]] | None = None,
) -> Reading:
    """Make the reading of the score under `key` and its reason, in one `field` of each reply or in the whole reply.

    The score of all replies is their median. It has the reason of the vote nearest to it (the first of several). The
    worst of `scale` becomes 0, the best 1. `metadata` is kept with the score. A function makes it from that vote's
    reply.
    """
    worst, best = scale

    def of(reply: Reply) -> Mapping[str, Any]:
        part_reply: Mapping[str, Any] = reply if field is None else reply[field]
        return part_reply

    def value(reply: Reply) -> float:
        score: float = (of(reply)[key] - worst) / (best - worst)
        return score

    def conclude(replies: Sequence[Reply]) -> Score:
        middle = median(map(value, replies))
        nearest = min(replies, key=lambda reply: abs(value(reply) - middle))
        facts = metadata(nearest) if callable(metadata) else metadata or {}
        reason = of(nearest)["reason"] or "the judge gave no reason"
        return Score(value=middle, reason=reason, metadata=facts)

    return Reading(value=value, conclude=conclude)


def completion(task: str, outcome: str) -> Question:
    """Make the question for task_completion, which follows the extraction."""
    facts: dict[str, Json] = {"task": task, "outcome": outcome}
    return Question(
        name=COMPLETION,
        version=COMPLETION_VERSION,
        instructions=_COMPLETION,
        data=facts,
        schema=object_schema(reason=REASON, verdict=SCORE),
        readings={"task_completion": by_median(key="verdict", metadata=facts)},
    )


def plan_quality(task: str, plan: list[str]) -> Question:
    """Make the question for plan_quality, which follows the extraction."""
    facts: dict[str, Json] = {"task": task, "plan": list[Json](plan)}
    return Question(
        name=PLAN,
        version=PLAN_VERSION,
        instructions=_PLAN,
        data=facts,
        schema=object_schema(reason=REASON, score=SCORE),
        readings={"plan_quality": by_median(metadata=facts)},
    )


def goal_question(question_data: Mapping[str, Json], session: Trace) -> Question:
    """Make the question about a session, which is given as one trace."""
    turns, steps = len(session.turns), entries(session)
    turn = whole(0, turns, f"A turn from 1 to {turns}; 0: none.")
    step = whole(0, len(steps), f'An "n" from 1 to {len(steps)}; 0: none.')

    def facts(reply: Reply) -> dict[str, Json]:
        failed_turn, number = int(reply[FAILED_TURN]), int(reply[FAILED_STEP])
        # A step of another turn contradicts the turn, which is the simpler question.
        failed = steps[number - 1] if number and steps[number - 1].labels.get("turn", 1) == failed_turn else None
        agent = reply[FAILED_AGENT] if reply[FAILED_AGENT] in session.agents and failed_turn else None
        return {
            GOAL: reply[GOAL],
            FAILED_TURN: failed_turn or None,
            FAILED_STEP: None if failed is None else number,
            FAILED_AGENT: agent or (None if failed is None else failed.values.get("agent")),
            FAILED_SPAN: None if failed is None else failed.span_id,
        }

    return Question(
        name=GOAL_SUCCESS,
        version=GOAL_VERSION,
        instructions=_GOAL + GUIDE,
        data=question_data,
        schema=object_schema(
            goal=TEXT, reason=REASON, failed_turn=turn, failed_step=step, failed_agent=TEXT, score=SCORE
        ),
        readings={GOAL_SUCCESS: by_median(metadata=facts)},
    )


def rubric_version(rubric: RubricConfig) -> str:
    """Make the version of a rubric's evaluator."""
    return version_of(RUBRIC_FORM_VERSION, [rubric.question, list(rubric.scale)])


def rubric_question(rubric: RubricConfig, question_data: Mapping[str, Json]) -> Question:
    """Make the question of a rubric.

    A number on the rubric's scale is mapped to [0, 1]: its worst to 0, its best to 1.
    """
    worst, best = rubric.scale
    return Question(
        name=rubric.name,
        version=rubric_version(rubric),
        instructions=f"{rubric.question}\n\nAnswer for the whole transcript with a number from {worst:g} (worst) to "
        f"{best:g} (best).\n\n{GUIDE}",
        data=question_data,
        schema=object_schema(reason=REASON, score=number(worst, best, f"From {worst:g} to {best:g}.")),
        readings={rubric.name: by_median(scale=rubric.scale)},
    )
