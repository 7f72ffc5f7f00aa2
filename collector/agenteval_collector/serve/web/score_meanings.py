"""A sentence on the meaning of each score, and the questions to the judge that the score rests on."""

from collections.abc import Mapping, Sequence
from typing import Final

from agenteval_collector.serve.api.trace_documents import ExchangeDocument

MEANINGS: Final[Mapping[str, str]] = {
    "task_completion": "Whether the user got what they asked for.",
    "tool_correctness": "Whether the right tools were called, none needless and none missing.",
    "argument_correctness": "Whether the arguments of calls fit the tool and what was said.",
    "step_efficiency": "Whether the agent went straight to its goal, without repeated or needless steps.",
    "confidence": "Whether the agent was sure of itself: no hedging, contradictions or retries in vain.",
    "plan_adherence": "Whether the agent did what its plan says.",
    "plan_quality": "Whether the plan was any good.",
    "coherence": "Whether the answer is about what was asked.",
    "loop_detection": "Whether the answer says something new: low where it repeats an earlier one of the session.",
    "safety": "Whether the agent kept the constraints that it must not break in a run.",
    "tool_use_correctness": "Whether the calls are those that ground truth expects.",
    "answer_correctness": "Whether the answer is the one that ground truth expects, or contains it.",
    "agent_reliability": "How bad the session's worst traces are: the riskiest 15 % of them count most.",
    "agent_consistency": "Whether the agent was as sure of itself in all traces of the session.",
    "goal_success": "Whether the user got what they wanted of the whole session.",
}

_ASKED: Final[Mapping[str, Sequence[str]]] = {
    "task_completion": ("extract", "completion"),
    "tool_correctness": ("tools",),
    "argument_correctness": ("tools",),
    "step_efficiency": ("extract", "execution"),
    "confidence": ("execution",),
    "plan_adherence": ("extract", "execution"),
    "plan_quality": ("extract", "plan"),
}
"""The questions of the built-in evaluators. Any other evaluator asks one question, with the evaluator's own name."""


def questions(exchanges: Sequence[ExchangeDocument], name: str) -> list[tuple[int, str]]:
    """Return the questions that the score `name` rests on, each with its number among the exchanges, from 1."""
    question_names = _ASKED.get(name, (name,))
    return [
        (number, exchange["question"])
        for number, exchange in enumerate(exchanges, 1)
        if exchange["question"] in question_names
    ]
