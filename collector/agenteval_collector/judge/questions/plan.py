"""plan_quality: was the plan a good one, whatever became of it? With it, the plan that the spans tell.

A plan that was recorded (what a planning call or a model beside its tool calls said) is read, not asked. Where none
was, it can be found only in what the agent reasoned or replied on the way: without any of that there is no plan.
"""

from collections.abc import Iterator
from typing import Final, cast

from agenteval_collector.judge.ports import Question
from agenteval_collector.judge.prompt.fitting import PLAN, Entry, Redact, fit
from agenteval_collector.judge.prompt.replies import REASON, SCORE, record
from agenteval_collector.judge.questions.scoring import by_median
from otel_agenteval.model import Json, Trace, Turn

NAME: Final = "plan"
VERSION: Final = "1"

_INSTRUCTIONS: Final = """\
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


def plan_quality(task: str, plan: list[str], threshold: float) -> Question:
    """Make the question after the extraction."""
    facts: dict[str, Json] = {"task": task, "plan": list[Json](plan)}
    return Question(
        name=NAME,
        version=VERSION,
        instructions=_INSTRUCTIONS,
        data=facts,
        schema=record(reason=REASON, score=SCORE),
        readings=[by_median("plan_quality", threshold, metadata=facts)],
    )


def recorded_plan(trace: Trace, budget: int, redact: Redact) -> list[str]:
    """Read the plan in the spans, in at most `budget` tokens; empty where none was recorded."""
    recorded = stated([text for turn in trace.turns for text in turn.plan])
    texts = [Entry(kind=PLAN, values={"text": text}) for text in recorded]
    return [cast("str", cast("dict[str, Json]", item)["text"]) for item in fit(texts, budget, redact).items]


def may_have_plan(trace: Trace) -> bool:
    """Tell whether there is a plan, or anything that could be evidence of one."""
    # As the entries of the transcript have it, without making them: this is asked of every trace, judge or not.
    return any(_is_said(text) for turn in trace.turns for text in _evidence(turn))


def _evidence(turn: Turn) -> Iterator[str]:
    replies = [call.output for call in turn.model_calls if call.output is not None]
    said = set(replies)
    yield from turn.reasoning
    yield from (text for text in turn.plan if text not in said)
    yield from replies[:-1] if replies and replies[-1] == turn.output else replies


def stated(plan: list[str]) -> list[str]:
    """Drop the blank steps of a plan."""
    return [step for step in plan if _is_said(step)]


def _is_said(text: Json) -> bool:
    return isinstance(text, str) and bool(text.strip())
