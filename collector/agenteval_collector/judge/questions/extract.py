"""Ask for the task, its outcome and the plan. No span states these facts. They are asked once for all metrics.

Only what is needed is asked. The outcome is asked for task_completion, and the plan if none was recorded. A
recorded plan is what a planning call said, or a model beside its tool calls. It is read, not asked. Otherwise a plan
can be found only in what the agent reasoned or replied on the way. Without any of that there is no plan.
"""

from collections.abc import Collection, Mapping
from typing import Final, cast

from agenteval_collector.evaluation.referrals import says_something
from agenteval_collector.judge.ports import Question
from agenteval_collector.judge.prompt import fitting
from agenteval_collector.judge.prompt.replies import TEXT, listing, object_schema
from agenteval_collector.judge.prompt.transcript import GUIDE
from agenteval_collector.model.score_kinds import EXTRACT
from otel_agenteval.model import Json, Trace

VERSION: Final = "4"

TASK: Final = "task"
OUTCOME: Final = "outcome"
PLAN: Final = "plan"

_FIELDS: Final = {
    TASK: (
        "the goal that the user pursued, in one or two sentences, with every condition that the user set. Take it from "
        "what the user said in all turns, not from what the agent made of it. Where the user goes on "
        "from what came earlier, say in full what is wanted now.",
        TEXT,
    ),
    OUTCOME: (
        "what the agent did and what came of it, strictly factual, in at most six sentences: actions, results of "
        "tools, errors, and what the answer says. No judgement and no word of one (successfully, correctly, helpful, "
        "unfortunately, efficiently). What the agent only claims is stated as a claim.",
        TEXT,
    ),
    PLAN: (
        "the steps that the agent meant to take, in their order, each in a short sentence. Evidence is only what the "
        "agent reasoned, planned or replied before it acted; an action is no evidence of a plan for it. Leave out a "
        "step without evidence, and give an empty list where there was no plan.",
        listing(TEXT, "The steps; empty where the agent had no plan."),
    ),
}


def extract(question_data: Mapping[str, Json], fields: Collection[str]) -> Question:
    """Make the question for `fields`, which are some of TASK, OUTCOME and PLAN."""
    names = [name for name in _FIELDS if name in fields]
    wanted = "\n".join(f"- {name}: {_FIELDS[name][0]}" for name in names)
    return Question(
        name=EXTRACT,
        version=VERSION,
        instructions=f"Extract facts from the transcript of an agent at work. Do not judge.\n{wanted}\n\n{GUIDE}",
        data=question_data,
        schema=object_schema(**{name: _FIELDS[name][1] for name in names}),
    )


def recorded_plan(trace: Trace, budget: int, redact: fitting.Redact) -> list[str]:
    """Read the plan in the spans, in at most `budget` tokens. Return an empty list if none was recorded."""
    recorded = stated([text for turn in trace.turns for text in turn.plan])
    texts = [fitting.Entry(kind=fitting.EntryKind.PLAN, values={"text": text}) for text in recorded]
    return [cast("str", cast("dict[str, Json]", item)["text"]) for item in fitting.fit(texts, budget, redact)]


def stated(plan: list[str]) -> list[str]:
    """Drop the blank steps of a plan."""
    return [step for step in plan if says_something(step)]
