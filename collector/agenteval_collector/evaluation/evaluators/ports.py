"""The port of trace evaluators, and the context that they are given."""

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from otel_agenteval.conventions.registry import content_switch
from otel_agenteval.metrics.loops import LoopText
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Method, Outcome, Status, Unscored

MAX_ANSWER_CHARACTERS = 20_000
"""Characters of an answer that are compared word by word.

The bound keeps a hostile answer from holding up the others.
"""
MAX_ADDRESS = 300
"""Characters of an address that a reason tells."""


Embed: TypeAlias = Callable[[str], npt.NDArray[np.float32]]
"""Turns a text into a vector."""


class EvaluationContext:
    """One trace with the values that evaluators share, so that nothing is embedded twice.

    `previous` are the session's answers before this trace, oldest first. None stands for a turn without an answer.
    """

    def __init__(
        self,
        trace: Trace,
        previous: Sequence[LoopText | None],
        embed: Embed,
        answers: Sequence[LoopText | None] | None = None,
    ) -> None:
        self.trace = trace
        self.previous = previous
        self.vector: Embed = cache(embed)
        self._answers = answers

    @cached_property
    def answers(self) -> Sequence[LoopText | None]:
        """The trace's own answers, turn by turn, ready for comparison."""
        if self._answers is not None:
            return self._answers
        return tuple(comparable(turn.output, self.vector) for turn in self.trace.turns)


class TraceEvaluator(Protocol):
    """Turns a trace into an outcome. `version` rises whenever the same trace could now score differently."""

    name: str
    version: str
    method: Method

    def evaluate(self, context: EvaluationContext) -> Outcome:
        """Return the outcome. If it raises, only this evaluator has a Failure."""
        ...


def not_applicable(reason: str) -> Unscored:
    """Return the outcome for a trace with nothing to evaluate."""
    return Unscored(status=Status.NOT_APPLICABLE, reason=reason)


def unanswered(trace: Trace) -> Unscored:
    """Return the outcome for a trace without an answer to evaluate."""
    if not trace.turns:
        what = "no turn of an agent" if trace.dialects else "no telemetry of an agent"
        return not_applicable(f"there is {what} in this trace")
    if trace.output is not None:
        return not_applicable("the answer is empty")
    if trace.turn_goes_on:
        return not_applicable("the turn asks for tools here, and goes on in another trace")
    if trace.turns[-1].error is not None:
        return not_applicable("the turn failed without an answer")
    return unrecorded("the answer", trace)


def unasked(trace: Trace) -> Unscored:
    """Return the outcome for a trace without a question to evaluate."""
    if trace.continues_turn:
        return not_applicable(
            "the question was asked in an earlier trace, and only results of tools were sent to the model here"
        )
    return unrecorded("the user's input", trace)


def unrecorded(what: str, trace: Trace) -> Unscored:
    """Return the outcome for a trace if `what` was not recorded.

    Its reason names the instrumentation's switch for recording it.
    """
    if unread := trace.unread.get("message"):
        reason = f"{what} could not be read: {unread} recorded values are messages in no form that is known here"
        return Unscored(status=Status.NO_CONTENT, reason=reason)
    advice = content_switch(trace.dialects)
    if trace.content_at is not None:
        advice = f"the messages were uploaded to {trace.content_at[:MAX_ADDRESS]}"
    return Unscored(status=Status.NO_CONTENT, reason=f"{what} was not recorded" + (f"; {advice}" if advice else ""))


def comparable(output: str | None, embed: Embed) -> LoopText | None:
    """Return an answer in the form that is compared. Return None for no answer and for an empty one."""
    return LoopText.of(output[:MAX_ANSWER_CHARACTERS], embed(output)) if output else None
