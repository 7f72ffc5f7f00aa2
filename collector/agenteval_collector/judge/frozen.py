"""Keep a trace so that it can be put to the judge again when its spans are gone.

A frozen trace holds the parts that the judge is shown, and no more. It is redacted as for the judge, and bounded. A
value has at most as many tokens as the judge may read of a whole trace. It has fewer if the trace does not fit into
`MAX_BYTES` otherwise.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from agenteval_collector.judge.prompt.fitting import Redact, shorten
from otel_agenteval.model import CertainFact, Json, ModelCall, Tool, ToolCall, Trace, Turn

Part = TypeVar("Part", Tool, ToolCall, ModelCall, Turn, CertainFact, Trace)

MAX_BYTES: Final = 64 * 1024
"""Bytes of a frozen trace, compressed."""
_SHARES: Final = (1, 4, 16)
"""Divisors of the tokens that a value may have. They are tried one after the other until the trace fits."""


# The order matters: values are redacted in it, so it numbers their placeholders. They are also written in it.
_SHOWN: Final[Mapping[type, tuple[str, ...]]] = {
    Tool: ("name", "description", "parameters"),
    ToolCall: ("name", "arguments", "result", "error", "agent", "started_at"),
    ModelCall: ("output", "error", "agent", "started_at", "ended_at"),
    Turn: (
        *("input", "output", "error", "agent", "reasoning", "plan", "started_at", "ended_at"),
        *("model_calls", "tool_calls", "handovers"),
    ),
    CertainFact: ("kind", "reason", "turn"),
    Trace: (
        *("trace_id", "session_id", "partial", "turn_goes_on", "continues_turn", "dialects", "started_at"),
        *("earlier", "history", "system_instructions", "turns", "available_tools", "agents", "observations"),
    ),
}
"""The fields that the judge is shown of a trace and its parts, or that say where something belongs."""

_OURS: Final = frozenset({*_SHOWN[Trace][:7], "ended_at", "turn"})
"""The fields that were not recorded as they are: ids, times, marks."""

_LISTS: Final[Mapping[str, type]] = {
    **{"earlier": Turn, "turns": Turn, "available_tools": Tool, "model_calls": ModelCall, "tool_calls": ToolCall},
    **{"handovers": ToolCall, "observations": CertainFact},
    **dict.fromkeys(("dialects", "history", "reasoning", "plan", "agents"), str),
}
"""The fields that are tuples, with the type of their items."""


def freeze(trace: Trace, trace_tokens: int, redact: Redact) -> bytes | None:
    """Freeze `trace` with its earlier calls and turns. Return None if it is too large to be kept.

    `redact` is the redaction of one trace, the same as for the judge's material.
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
    trace: Trace = _made(Trace, json.loads(zlib.decompress(frozen)))
    return trace


def shown_whole(trace: Trace) -> Trace:
    """Return `trace` with all that the judge is shown in its own place.

    Earlier calls of the first turn are moved into that turn. Messages are left out if the earlier turns hold them.
    """
    return replace(trace.with_earlier_calls(), told=(), history=() if trace.earlier else trace.history)


def written(trace: Trace) -> str:
    """Write what the judge is shown of `trace` as JSON, in the order of its parts."""
    return json.dumps(trace, default=lambda dump: {name: getattr(dump, name) for name in _SHOWN[type(dump)]})


def mapped(json_part: Part, change: Callable[[Json], Any]) -> Part:
    """Return a trace, or a part of one, with every recorded value changed. A missing value stays None."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        if type(value) in _SHOWN:
            return mapped(value, change)
        return None if value is None else change(value)

    recorded = {name: getattr(json_part, name) for name in _SHOWN[type(json_part)] if name not in _OURS}
    return replace(json_part, **{name: changed(value) for name, value in recorded.items()})


def _made(of: Any, values: Any) -> Any:
    """Make a part, or a text, from its JSON form."""
    if of is str:
        return values
    # A trace that an earlier version froze has not all fields.
    fields = {name: values[name] for name in _SHOWN[of] if name in values}
    lists = {name: tuple(_made(_LISTS[name], field) for field in fields[name]) for name in _LISTS if name in fields}
    # Span ids are not frozen, as the judge is not shown them. These two types need one all the same.
    return of(**fields | lists, **({"span_id": ""} if of in (ModelCall, Turn) else {}))
