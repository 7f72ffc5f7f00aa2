"""A trace as it can be put to the judge again when its spans are gone: what the judge is shown of one, and no more.

It is redacted as for the judge, and bounded: a value has at most as many tokens as the judge gets to read of a whole
trace, fewer where the trace does not fit into `MAX_BYTES` so.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from agenteval_collector.judge.prompt.fitting import Redact, shorten
from otel_agenteval.model import Json, ModelCall, Tool, ToolCall, Trace, Turn

Part = TypeVar("Part", Tool, ToolCall, ModelCall, Turn)

RECORDED: Final[Mapping[type, tuple[str, ...]]] = {
    Tool: ("name", "description", "parameters"),
    ToolCall: ("name", "arguments", "result", "error"),
    ModelCall: ("output", "error"),
    Turn: ("input", "output", "error"),
}
"""The fields that hold one value, in the order in which the judge is shown them."""


def mapped(trace: Trace, change: Callable[[Json], Any]) -> Trace:
    """Return `trace`, and what came before it, with every recorded value changed; what was not recorded stays None."""
    return replace(
        trace,
        earlier=tuple(_turn(turn, change) for turn in trace.earlier),
        history=tuple(change(value) for value in trace.history),
        system_instructions=None if trace.system_instructions is None else change(trace.system_instructions),
        turns=tuple(_turn(turn, change) for turn in trace.turns),
        available_tools=tuple(_part(tool, change) for tool in trace.available_tools),
    )


def _part(part: Part, change: Callable[[Json], Any]) -> Part:
    values = {name: getattr(part, name) for name in RECORDED[type(part)]}
    return replace(part, **{name: change(value) for name, value in values.items() if value is not None})


def _turn(turn: Turn, change: Callable[[Json], Any]) -> Turn:
    return replace(
        _part(turn, change),
        reasoning=tuple(change(text) for text in turn.reasoning),
        plan=tuple(change(text) for text in turn.plan),
        model_calls=tuple(_part(call, change) for call in turn.model_calls),
        tool_calls=tuple(_part(call, change) for call in turn.tool_calls),
    )


MAX_BYTES: Final = 64 * 1024
"""Bytes of a frozen trace, compressed."""
_SHARES: Final = (1, 4, 16)
"""Parts of the tokens that a value may have, tried one after the other until the trace fits."""

_PLAIN: Final = ("trace_id", "session_id", "partial", "turn_goes_on", "continues_turn", "dialects", "started_at")
_OF_PARTS: Final[Mapping[type, tuple[str, ...]]] = {
    Tool: RECORDED[Tool],
    ToolCall: (*RECORDED[ToolCall], "started_at"),
    ModelCall: (*RECORDED[ModelCall], "started_at", "ended_at"),
    Turn: (*RECORDED[Turn], "reasoning", "plan", "started_at", "ended_at"),
}


def freeze(trace: Trace, trace_tokens: int, redact: Redact) -> bytes | None:
    """Return `trace` with the earlier calls and turns that it has; None where it is too large to be kept.

    `redact` is that of one trace, as the judge's material has it.
    """
    whole = shown_whole(trace)
    for share in _SHARES:
        cut = mapped(whole, partial(shorten, cap=trace_tokens // share, redact=redact))
        frozen = zlib.compress(written(cut).encode())
        if len(frozen) <= MAX_BYTES:
            return frozen
    return None


def thaw(frozen: bytes) -> Trace:
    """Return the trace that was frozen. Raises ValueError, zlib.error or KeyError for anything else."""
    fields = json.loads(zlib.decompress(frozen))
    return Trace(
        **{name: fields[name] for name in _PLAIN} | {"dialects": tuple(fields["dialects"])},
        system_instructions=fields["system_instructions"],
        history=tuple(fields["history"]),
        available_tools=tuple(Tool(**tool) for tool in fields["available_tools"]),
        earlier=tuple(map(_thawed, fields["earlier"])),
        turns=tuple(map(_thawed, fields["turns"])),
    )


def shown_whole(trace: Trace) -> Trace:
    """Return `trace` with all that the judge is shown in its own place: earlier calls of its first turn in the turn,
    and no messages where they repeat the turns before it."""
    return replace(trace.with_earlier_calls(), told=(), history=() if trace.earlier else trace.history)


def written(trace: Trace) -> str:
    """Write what the judge is shown of `trace` as JSON, in the order of its parts."""
    document = {
        **{name: getattr(trace, name) for name in (*_PLAIN, "history", "system_instructions")},
        "earlier": [_turn_document(turn) for turn in trace.earlier],
        "turns": [_turn_document(turn) for turn in trace.turns],
        "available_tools": [_document(tool) for tool in trace.available_tools],
    }
    return json.dumps(document)


def _document(part: Tool | ToolCall | ModelCall | Turn) -> dict[str, Any]:
    return {name: getattr(part, name) for name in _OF_PARTS[type(part)]}


def _turn_document(turn: Turn) -> dict[str, Any]:
    model_calls = [_document(call) for call in turn.model_calls]
    tool_calls = [_document(call) for call in turn.tool_calls]
    return {**_document(turn), "model_calls": model_calls, "tool_calls": tool_calls}


def _thawed(fields: Mapping[str, Any]) -> Turn:
    decoded = {
        "reasoning": tuple(fields["reasoning"]),
        "plan": tuple(fields["plan"]),
        "model_calls": tuple(ModelCall(span_id="", **call) for call in fields["model_calls"]),
        "tool_calls": tuple(ToolCall(**call) for call in fields["tool_calls"]),
    }
    return Turn(span_id="", **{**fields, **decoded})
