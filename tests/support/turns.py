"""Own loops around a plain client whose service keeps the conversation: a trace of every model call."""

import json
from typing import Any, NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.otlp import START, span

SECOND = 1_000_000_000


class Call(NamedTuple):
    """A call that a model asks for, and what its tool gives back."""

    query: str
    result: str


def turn_of(
    calls: list[Call], *, first: int = 1, session: str | None = None, whole: bool = False, prefix: str = "call"
) -> list[Span]:
    """The traces of one turn, numbered from `first` on: each model call but the last asks for one of the calls, and is
    sent the result of the one before alone; with `whole`, all that was said before as well."""
    history: list[dict[str, Any]] = [_message("user", {"type": "text", "content": f"Question {first}?"})]
    sent = list(history)
    spans = []
    for at, call in enumerate([*calls, None]):
        trace, call_id = first + at, f"{prefix}_{first + at}"
        reply = _message("assistant", {"type": "text", "content": f"Answer {first}."})
        if call is not None:
            asked = {"type": "tool_call", "id": call_id, "name": "search", "arguments": {"query": call.query}}
            reply = _message("assistant", asked)
        spans.append(_model_call(trace, sent, reply, session))
        if call is not None:
            result = _message("tool", {"type": "tool_call_response", "id": call_id, "response": call.result})
            history += [reply, result]
            sent = list(history) if whole else [result]
    return spans


def _model_call(trace: int, sent: list[dict[str, Any]], reply: dict[str, Any], session: str | None) -> Span:
    named: dict[str, Any] = {} if session is None else {"gen_ai__conversation__id": session}
    item = span(
        trace,
        1,
        gen_ai__operation__name="chat",
        gen_ai__request__model="small",
        gen_ai__input__messages=json.dumps(sent),
        gen_ai__output__messages=json.dumps([reply]),
        **named,
    )
    item.start_time_unix_nano = START + trace * SECOND
    item.end_time_unix_nano = item.start_time_unix_nano + SECOND // 2
    return item


def _message(role: str, part: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": [part]}
