"""Traces to evaluate, and the evaluators on them with the real embedder."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from agenteval_collector.evaluation.embedding import EmbeddedEmbedder
from agenteval_collector.evaluation.evaluators import EvaluationContext, TraceEvaluator

from otel_agenteval.metrics.loops import LoopText
from otel_agenteval.model import Json, ModelCall, Tool, ToolCall, Trace, Turn
from otel_agenteval.outcome import Outcome, Score, Status

_EARLIER = LoopText.of("what was said before", [1.0, 0.0])


@cache
def embedder() -> EmbeddedEmbedder:
    return EmbeddedEmbedder()


def call(name: str = "get_order", arguments: Json = None, result: Json = "fine", error: str | None = None) -> ToolCall:
    """A call that worked, unless it has an error."""
    return ToolCall(name=name, arguments=arguments, result=None if error else result, error=error)


def turn(
    question: str | None = "Where is my order 7731?",
    answer: str | None = "Your order 7731 is on its way to you.",
    *calls: ToolCall,
    **changes: Any,
) -> Turn:
    return Turn(
        span_id="b7ad6b7169203331",
        input=question,
        output=answer,
        tool_calls=calls,
        model_calls=(ModelCall(span_id="00f067aa0ba902b7", output=answer, started_at=1, ended_at=2),),
        started_at=1,
        ended_at=2,
        **changes,
    )


def trace(*turns: Turn, tools: Sequence[Tool] = (), **changes: Any) -> Trace:
    return Trace(
        trace_id="0af7651916cd43dd8448eb211c80319c",
        turns=turns,
        available_tools=tuple(tools),
        dialects=("otel_genai",),
        **changes,
    )


def evaluate(kind: type[TraceEvaluator], subject: Trace, *, first: bool = True) -> Outcome:
    """The outcome for the first trace of its session, or for a later one."""
    return kind().evaluate(EvaluationContext(subject, [] if first else [_EARLIER], embedder().embed))


def value(outcome: Outcome) -> float:
    """The score. Raises AssertionError with the reason where there is none."""
    assert isinstance(outcome, Score), outcome
    return outcome.value


def status(outcome: Outcome) -> Status:
    return outcome.status
