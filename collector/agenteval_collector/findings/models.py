"""Model calls that failed, and answers that a model did not finish."""

from collections.abc import Iterator
from typing import Final

from agenteval_collector.findings.observing import Observed, Subject, quote
from agenteval_collector.problems import shape_of
from otel_agenteval.model import ModelCall, Turn

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


def failed(subject: Subject) -> Iterator[Observed]:
    """Find model calls that ended in an error, even if the next attempt succeeded."""
    for index, turn in subject.turns():
        for call in turn.model_calls:
            if call.error is not None:
                reason = f"the call of {quote(call.model or 'the model')} failed: {quote(call.error)}"
                yield _of(index, call, reason, {"model": call.model, "shape": shape_of(call.error)})


def cut(subject: Subject) -> Iterator[Observed]:
    """Find answers that a limit or a filter ended."""
    for index, turn in subject.turns():
        call = _answering(turn)
        why = CUTS.get(_plain(call.finish_reason)) if call and call.finish_reason else None
        if call and why:
            given = quote(call.finish_reason or "")
            yield _of(
                index, call, f"the answer breaks off: {why} ({given})", {"finish_reason": given, "shape": _plain(given)}
            )


def _answering(turn: Turn) -> ModelCall | None:
    """Return the call whose reply is the turn's answer, else its last one."""
    calls = turn.model_calls[::-1]
    said = (call for call in calls if turn.output and call.output == turn.output)
    return next(said, calls[0] if calls else None)


def _plain(finish_reason: str) -> str:
    """Return the reason in one spelling: `FinishReason.MAX_TOKENS` and `max-tokens` are the same."""
    return finish_reason.rpartition(".")[2].lower().replace("-", "_")


def _of(turn: int, call: ModelCall, reason: str, metadata: dict[str, str | None]) -> Observed:
    return Observed(reason=reason, turn=turn, span_id=call.span_id, agent=call.agent, metadata={**metadata})
