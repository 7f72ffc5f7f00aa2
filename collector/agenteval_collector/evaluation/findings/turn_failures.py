"""Observers of turns that failed, empty answers, model calls that failed, and answers that a model did not finish."""

from collections.abc import Iterator, Mapping
from typing import Final

from agenteval_collector.evaluation.findings.observers import Observation, ObservedTrace
from agenteval_collector.model.failed_calls import failed_call, quote
from agenteval_collector.model.problem_shape import shape_of
from otel_agenteval.model import Json, ModelCall, Turn


def turn_failed(observed: ObservedTrace) -> Iterator[Observation]:
    """Find turns that failed: their own span or one around it ended in an error, or they have no answer because a call
    failed.

    A turn did not fail if an attempt failed and a later one succeeded, or if its caller went away.
    """
    for index, turn in observed.turns():
        if turn.error is not None and not turn.is_cancelled:
            but = ", though something was answered" if turn.output else ""
            reason = f"the turn ended in an error{but}: {quote(turn.error)}"
            metadata: dict[str, Json] = {"answered": bool(turn.output), "shape": shape_of(turn.error)}
            yield Observation(reason=reason, turn=index, span_id=turn.span_id, metadata=metadata)


def unanswered(observed: ObservedTrace) -> Iterator[Observation]:
    """Find turns with a recorded answer that is empty.

    Left out are turns without a recorded answer, turns that ended in a tool call or a hand-over, and turns that failed,
    which are another finding.
    """
    for index, turn in observed.turns():
        if turn.output is not None and not turn.output.strip() and turn.error is None:
            reason = "the turn was answered with an empty text"
            yield Observation(reason=reason, turn=index, span_id=turn.span_id)


def step_failed(observed: ObservedTrace) -> Iterator[Observation]:
    """Find failed spans that are neither a turn nor a call, in turns that did not fail."""
    for step in observed.trace.failed_steps:
        reason = f"{step.name} ended in an error, and the turn went on: {quote(step.error)}"
        yield Observation(reason=reason, turn=step.turn, span_id=step.span_id, metadata={"step": step.name})


_TOO_LONG: Final = "it had reached its limit of tokens"
_FILTERED: Final = "a filter of content stopped it"
CUTS: Final = {
    "length": _TOO_LONG,
    "max_tokens": _TOO_LONG,
    "max_output_tokens": _TOO_LONG,
    "model_length": _TOO_LONG,
    "model_context_window_exceeded": _TOO_LONG,
    "content_filter": _FILTERED,
    "content_filtered": _FILTERED,
    "guardrail_intervened": _FILTERED,
    "safety": _FILTERED,
    "recitation": _FILTERED,
    "blocklist": _FILTERED,
    "prohibited_content": _FILTERED,
    "spii": _FILTERED,
    "image_safety": _FILTERED,
    "error_toxic": _FILTERED,
    "incomplete": "the model did not finish it",
    "cancelled": "it was cancelled",
    "malformed_function_call": "it was to be a call of a tool, and could not be read as one",
}
"""Finish reasons of OpenAI, Anthropic, Bedrock, Gemini, Mistral and Cohere for a reply that the model did not end
itself."""


def model_failed(observed: ObservedTrace) -> Iterator[Observation]:
    """Find model calls that ended in an error, even if the next attempt succeeded."""
    for index, turn in observed.turns():
        for call in turn.model_calls:
            if call.error is not None:
                yield _of(index, call, *failed_call(call.model, call.error, call.error_type))


def answer_cut(observed: ObservedTrace) -> Iterator[Observation]:
    """Find answers that a limit or a filter ended."""
    for index, turn in observed.turns():
        call = _answering(turn)
        why = CUTS.get(_plain(call.finish_reason)) if call and call.finish_reason else None
        if call and why:
            reason = quote(call.finish_reason or "")
            yield _of(
                index,
                call,
                f"the answer breaks off: {why} ({reason})",
                {"finish_reason": reason, "shape": _plain(reason)},
            )


def _answering(turn: Turn) -> ModelCall | None:
    """Return the call whose reply is the turn's answer, else its last one."""
    calls = turn.model_calls[::-1]
    answers = (call for call in calls if turn.output and call.output == turn.output)
    return next(answers, calls[0] if calls else None)


def _plain(finish_reason: str) -> str:
    """Return the reason in one spelling: `FinishReason.MAX_TOKENS` and `max-tokens` are the same."""
    return finish_reason.rpartition(".")[2].lower().replace("-", "_")


def _of(turn: int, call: ModelCall, reason: str, metadata: Mapping[str, Json]) -> Observation:
    return Observation(reason=reason, turn=turn, span_id=call.span_id, agent=call.agent, metadata={**metadata})
