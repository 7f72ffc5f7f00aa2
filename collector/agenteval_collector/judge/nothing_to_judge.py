"""Find the outcomes that need no asking: a judge would have nothing to go by."""

from typing import Final

from agenteval_collector.evaluators.ports import not_applicable, unanswered, unasked, unrecorded
from agenteval_collector.judge.questions.plan import may_have_plan
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Unscored

_WITHOUT_ANSWER: Final = ("tool_correctness", "argument_correctness", "plan_quality")
"""These look at what was done or planned before the answer."""


def preclude(trace: Trace, name: str) -> Unscored | None:
    """Find the reason why the judged evaluator or rubric `name` cannot score `trace`; None: the judge is to be asked.

    An empty answer, and a turn that failed, are judged: they are what came of the task.
    """
    if not trace.turns:
        return unanswered(trace)
    if trace.turn_goes_on:
        return not_applicable("the turn goes on in another trace")
    if all(turn.input is None for turn in trace.turns):
        return unasked(trace)
    if not any(turn.input or turn.error is not None for turn in trace.turns):
        return not_applicable("the user's input is empty")
    last = trace.turns[-1]
    if name not in _WITHOUT_ANSWER and last.output is None and last.error is None:
        return unanswered(trace)
    return _nothing_of_its_own(trace, name)


def _nothing_of_its_own(trace: Trace, name: str) -> Unscored | None:
    """Check what an evaluator needs beyond an input and an answer."""
    match name:
        case "tool_correctness" if not (trace.tool_calls or trace.available_tools):
            return not_applicable("no tools")
        case "argument_correctness" if not trace.tool_calls:
            return not_applicable("no tool calls")
        case "argument_correctness" if all(call.arguments is None for call in trace.tool_calls):
            return unrecorded("the arguments of tool calls", trace)
        case "plan_adherence" | "plan_quality" if not may_have_plan(trace):
            return not_applicable("no plan: none was recorded, and nothing that could be evidence of one")
    return None
