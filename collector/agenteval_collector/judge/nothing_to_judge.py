"""Find the outcomes that need no asking: a judge would have nothing to go by."""

from collections.abc import Callable, Mapping
from typing import Final

from agenteval_collector.evaluators.ports import unanswered, unasked, unrecorded
from agenteval_collector.judge.questions.plan import may_have_plan
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Status, Unscored

_WITHOUT_ANSWER: Final = ("tool_correctness", "argument_correctness", "plan_quality")
"""These look at what was done or planned before the answer."""


def preclude(trace: Trace, name: str) -> Unscored | None:
    """Find the reason why the judged evaluator or rubric `name` cannot score `trace`; None: the judge is to be asked.

    An empty answer, and a turn that failed, are judged: they are what came of the task.
    """
    if not trace.turns:
        return unanswered(trace)
    if trace.turn_goes_on:
        return _not_applicable("the turn goes on in another trace")
    if all(turn.input is None for turn in trace.turns):
        return unasked(trace)
    if not any(turn.input or turn.error is not None for turn in trace.turns):
        return _not_applicable("the user's input is empty")
    last = trace.turns[-1]
    if name not in _WITHOUT_ANSWER and last.output is None and last.error is None:
        return unanswered(trace)
    subject = _SUBJECTS.get(name)
    return subject(trace) if subject else None


def _tools(trace: Trace) -> Unscored | None:
    return None if trace.tool_calls or trace.available_tools else _not_applicable("no tools")


def _arguments(trace: Trace) -> Unscored | None:
    if not trace.tool_calls:
        return _not_applicable("no tool calls")
    if all(call.arguments is None for call in trace.tool_calls):
        return unrecorded("the arguments of tool calls", trace)
    return None


def _plan(trace: Trace) -> Unscored | None:
    if may_have_plan(trace):
        return None
    return _not_applicable("no plan: none was recorded, and nothing that could be evidence of one")


_SUBJECTS: Final[Mapping[str, Callable[[Trace], Unscored | None]]] = {
    "tool_correctness": _tools,
    "argument_correctness": _arguments,
    "plan_adherence": _plan,
    "plan_quality": _plan,
}
"""The checks for what an evaluator needs beyond an input and an answer; None: it has it."""


def _not_applicable(reason: str) -> Unscored:
    return Unscored(status=Status.NOT_APPLICABLE, reason=reason)
