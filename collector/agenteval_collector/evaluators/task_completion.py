"""Whether anything speaks against the task being completed.

Each turn has the value of the worst sign in it, and the trace the mean of its turns:

    0.0  the turn failed without an answer, or its answer is empty
    0.2  the answer refuses ("I cannot"), or hands over to somebody else, in words or by a tool call
    0.4  the answer has nothing to do with the question, by their embeddings
    0.6  the last tool call of the turn failed
    1.0  none of these; which is no proof that the task is completed

Refusals and hand-offs are known in English only. A refusal may be the right answer: that takes a judge.
"""

import re

from agenteval_collector.evaluators import phrases
from agenteval_collector.evaluators.port import EvaluationContext, unanswered
from agenteval_collector.evaluators.reasons import quote
from otel_agenteval.metrics import coherence
from otel_agenteval.model import Turn
from otel_agenteval.outcome import Method, Outcome, Score

UNRELATED = 0.05
"""Similarity below which an answer has nothing to do with the question."""
MIN_WORDS = 5
"""Words of a question that is long enough to say what it is about; "Yes, please." is like no answer to it."""

_HAND_OFF_TOOL = re.compile(r"human|escalat|hand_?off|live_?agent", re.IGNORECASE)


class TaskCompletion:
    """The mean over the turns of what their worst signs leave."""

    name = "task_completion"
    version = "embedded-1"
    method = Method.HEURISTIC

    def evaluate(self, context: EvaluationContext) -> Outcome:
        trace = context.trace
        if not trace.turns or all(turn.output is None and turn.error is None for turn in trace.turns):
            return unanswered(trace)
        # A turn without a recorded answer is no sign of anything.
        known = [turn for turn in trace.turns if turn.output is not None or turn.error is not None]
        values = [_worst_sign(turn, context) for turn in known]
        worst = min(values, key=lambda value: value[0])
        return Score(
            value=sum(value for value, _ in values) / len(values),
            reason=worst[1],
            metadata={"turns": len(values), "turns_with_a_sign": sum(value < 1 for value, _ in values)},
        )


def _worst_sign(turn: Turn, context: EvaluationContext) -> tuple[float, str]:
    if not turn.output or not turn.output.strip():
        return 0.0, f"the turn failed: {quote(turn.error)}" if turn.error is not None else "the answer is empty"
    if gave_up := _gave_up(turn, phrases.plain(turn.output)):
        return 0.2, gave_up
    if turn.input and len(turn.input[:1000].split()) >= MIN_WORDS:
        similarity = coherence(turn.input, turn.output, context.vector(turn.input), context.vector(turn.output)).score
        if similarity is not None and similarity < UNRELATED:
            return 0.4, f"the answer has nothing to do with the question: similarity {similarity:.2f}"
    if turn.tool_calls and turn.tool_calls[-1].error is not None:
        return 0.6, f"the last tool call, {quote(turn.tool_calls[-1].name)}, failed"
    return 1.0, "no error, refusal, hand-off, empty or unrelated answer; whether the task is done takes a judge"


def _gave_up(turn: Turn, answer: str) -> str | None:
    if match := phrases.REFUSAL.search(answer):
        return f'the answer refuses: "{match[0]}"'
    if match := phrases.HAND_OFF.search(answer):
        return f'the answer hands over: "{match[0]}"'
    handing = next((call for call in turn.tool_calls if _HAND_OFF_TOOL.search(call.name[:200])), None)
    return f"the agent hands over by calling {quote(handing.name)}" if handing else None
