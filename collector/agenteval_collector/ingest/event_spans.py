"""Make spans of the log records by which coding agents tell of their work, before they enter the log.

A turn becomes a trace: what the user said is its root, and each model call and tool call a span below. The spans are
written in the GenAI conventions, so that everything behind reads them like any other. Ids follow from the records, so
that a record that is sent again is the same span.
"""

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from threading import Lock
from typing import Any, Final, NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from agenteval_collector.ingest.agent_events import (
    CACHE_READ,
    CACHE_WRITE,
    CALL,
    EMITTERS,
    ERRORS,
    PROMPT,
    REASONING,
    RENAMED,
    TOKENS,
    TOOL,
    AgentEvent,
    Emitter,
)
from agenteval_collector.model.logged_requests import NO_TRACE, Signal, resource_of
from otel_agenteval import semconv
from otel_agenteval.conventions.decoding import known_text
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.proto.v1.frame_pb2 import Frame, ScopeFrame

SESSIONS: Final = 4_000
"""Sessions whose last turns are remembered."""
PROMPTS: Final = 8
"""Turns of a session that are remembered: records come late, but not by more than a batch or two."""
SHORTEST: Final = 5_000_000
"""Nanoseconds of a step whose event tells no duration."""
LONGEST: Final = 86_400_000_000_000
"""Nanoseconds that no step takes."""

_DURATION: Final = ("duration_ms", "duration")
_COST: Final = "cost_usd"
_SUCCESS: Final = "success"
_TOOL_STATUS: Final = "gen_ai.tool.status"
_REFUSED: Final = "ToolRejected"
_MCP_TOOL: Final = "mcp_tool"
_NAMES: Final = {CALL: semconv.GEN_AI_REQUEST_MODEL, TOOL: semconv.GEN_AI_TOOL_NAME, PROMPT: semconv.GEN_AI_AGENT_NAME}
_Values = Mapping[str, AnyValue]
_Written = dict[str, str | int | float | AnyValue]


def key_of(*names: str | None) -> bytes:
    """Return a key of fixed length for a session, and for its turn if there are two names."""
    return _digest(16, *(name.encode(errors="replace") for name in names if name))


class TurnTrace(NamedTuple):
    """The trace of a turn, and the span that its steps are below. `has_spans`: the agent sends spans of it, too."""

    trace_id: bytes
    span_id: bytes
    has_spans: bool = False


class Turns:
    """The last turns of each session, by the time of their prompts. Bounded, and thread-safe.

    The next steps of a session that was forgotten stand in a trace without a prompt, until the user speaks again.
    """

    def __init__(self) -> None:
        self._sessions: LruMap[bytes, tuple[tuple[int, TurnTrace], ...]] = LruMap(SESSIONS)
        self._lock = Lock()

    def begin(self, session: bytes, at: int, turn: TurnTrace) -> None:
        """Note that a turn of a session began `at` (ns since the Unix epoch). `session` is its `key_of`."""
        with self._lock:
            known = self._sessions.get(session) or ()
            self._sessions.put(session, tuple(sorted({*known, (at, turn)})[-PROMPTS:]))

    def at(self, session: bytes, moment: int) -> TurnTrace | None:
        """Return the turn of a session that was the last to begin by `moment`; None if none is known."""
        with self._lock:
            known = self._sessions.get(session) or ()
        index = bisect_right([at for at, _ in known], moment)
        return known[index - 1][1] if index else None

    def __contains__(self, session: bytes) -> bool:
        return self._sessions.peek(session) is not None


@dataclass(slots=True, kw_only=True)
class _EventStep:
    """One event, and what it came with."""

    resource: bytes
    scope: bytes
    raw: bytes
    record: LogRecord
    values: _Values
    emitter: Emitter
    event: AgentEvent
    turns_of: bytes
    """The `key_of` the session, and of the turn if the event names one."""

    @property
    def time(self) -> int:
        return self.record.time_unix_nano or self.record.observed_time_unix_nano

    @property
    def recorded_in(self) -> TurnTrace | None:
        """The trace that the record names; None if it names none, or one that is not the turn's."""
        if self.emitter.told_by_spans is None or self.record.trace_id in NO_TRACE:
            return None
        return TurnTrace(self.record.trace_id, self.record.span_id, has_spans=True)

    def turn(self, number: str = "") -> TurnTrace:
        """Return a turn of ids that follow from the session, and from `number` if the session names no turn."""
        trace_id = _digest(16, self.emitter.agent.encode(), self.turns_of, number.encode())
        return TurnTrace(trace_id, _digest(8, trace_id))


def with_event_spans(signal: Signal, body: bytes, turns: Turns) -> list[tuple[Signal, bytes]]:
    """Return the requests to log in place of a request that was checked: one with the spans that the events of coding
    agents make, and what is left of the request. Spans that say less than the events of their session are left out."""
    # Most requests hold none, and need not be parsed for that.
    emitters = [emitter for emitter in EMITTERS if emitter.is_in(signal, body)]
    if not emitters:
        return [(signal, body)]
    frame = Frame.FromString(body)
    if signal is Signal.TRACES:
        _leave_out_told(frame, {emitter.scope for emitter in emitters}, turns)
        return [(signal, frame.SerializeToString())] if frame.resources else []
    steps = list(_taken(frame, emitters))
    if not steps:
        return [(signal, body)]
    # The prompts first: the records of a request are in no order.
    for step in steps:
        if step.event.operation == PROMPT:
            turn = step.recorded_in or step.turn("" if step.emitter.turn else str(step.time))
            turns.begin(step.turns_of, step.time, turn)
    made = _made_of(steps, turns)
    requests = [(Signal.TRACES, made), (signal, frame)]
    return [(kind, request.SerializeToString()) for kind, request in requests if request.resources]


def _taken(frame: Frame, emitters: Sequence[Emitter]) -> Iterator[_EventStep]:
    """Take the events out of a request of log records, and yield them. The other records of a scope whose spans are
    left out go with these."""
    left_out = {emitter.scope for emitter in emitters} - {None}
    for resource in frame.resources:
        service = str(resource_of(resource.resource).get(semconv.SERVICE_NAME, ""))
        for scope in resource.scopes:
            is_left_out = InstrumentationScope.FromString(scope.scope).name in left_out
            others = []
            for raw in scope.items:
                step = _step(raw, resource.resource, scope.scope, service, emitters)
                if step is not None:
                    yield step
                elif not is_left_out:
                    others.append(raw)
            scope.items[:] = others
    _drop_empty(frame)


def _leave_out_told(frame: Frame, scopes: Collection[str | None], turns: Turns) -> None:
    """Take the spans of `scopes` out of a request that stand in sessions whose events are known."""
    for resource in frame.resources:
        for scope in resource.scopes:
            if InstrumentationScope.FromString(scope.scope).name in scopes:
                spans = ((raw, _values(Span.FromString(raw).attributes)) for raw in scope.items)
                named = [(raw, _text(values, semconv.GEN_AI_CONVERSATION_ID)) for raw, values in spans]
                scope.items[:] = [raw for raw, session in named if key_of(session) not in turns]
    _drop_empty(frame)


def _drop_empty(frame: Frame) -> None:
    for resource in frame.resources:
        scopes = [scope for scope in resource.scopes if scope.items]
        if len(scopes) < len(resource.scopes):
            resource.ClearField("scopes")
            resource.scopes.extend(scopes)
    resources = [resource for resource in frame.resources if resource.scopes]
    if len(resources) < len(frame.resources):
        frame.ClearField("resources")
        frame.resources.extend(resources)


def _step(raw: bytes, resource: bytes, scope: bytes, service: str, emitters: Sequence[Emitter]) -> _EventStep | None:
    """Return the event in a log record; None if it is none, or tells nothing of a turn."""
    record = LogRecord.FromString(raw)
    values = _values(record.attributes)
    for emitter in emitters:
        names = (_text(values, "event.name") or "", record.event_name, record.body.string_value)
        events = emitter.named(names, service, values.keys())
        event = next((event for event in events if _applies(event, values)), None)
        named = [_text(values, *emitter.session), _text(values, emitter.turn) if emitter.turn else None]
        if event is not None and any(named):
            return _EventStep(
                resource=resource,
                scope=scope,
                raw=raw,
                record=record,
                values=values,
                emitter=emitter,
                event=event,
                turns_of=key_of(*named),
            )
    return None


def _applies(event: AgentEvent, values: _Values) -> bool:
    return (
        all(_text(values, key) == value for key, value in event.only_if.items())
        and (not event.needs or _text(values, *event.needs) is not None)
        and (not event.failed_if or _text(values, *event.failed_if) is not None)
    )


def _made_of(steps: Iterable[_EventStep], turns: Turns) -> Frame:
    """Return a request with the spans that the steps make. Several events of one reply make one."""
    made: list[tuple[_EventStep, Span]] = []
    by_reply: dict[tuple[bytes, str], Span] = {}
    for step in steps:
        turn = step.recorded_in or turns.at(step.turns_of, step.time) or step.turn()
        if turn.has_spans and step.event.operation in (step.emitter.told_by_spans or ()) and not step.event.failed_if:
            continue
        span = _span(step, turn)
        reply = _text(step.values, *RENAMED[CALL][semconv.GEN_AI_RESPONSE_ID])
        first = by_reply.setdefault((turn.trace_id, reply), span) if reply else span
        if first is span:
            made.append((step, span))
        else:
            known = {attribute.key for attribute in first.attributes}
            first.attributes.extend(attribute for attribute in span.attributes if attribute.key not in known)
            first.start_time_unix_nano = min(first.start_time_unix_nano, span.start_time_unix_nano)
    frame = Frame()
    for (resource, scope), group in groupby(made, lambda pair: (pair[0].resource, pair[0].scope)):
        items = [span.SerializeToString() for _, span in group]
        frame.resources.add(resource=resource, scopes=[ScopeFrame(scope=scope, items=items)])
    return frame


def _span(step: _EventStep, turn: TurnTrace) -> Span:
    event, values = step.event, step.values
    written = _written(step)
    span = Span(trace_id=turn.trace_id, kind=Span.SPAN_KIND_INTERNAL)
    if event.operation == PROMPT and not turn.has_spans:
        span.span_id = turn.span_id
    else:
        span.span_id, span.parent_span_id = _digest(8, turn.trace_id, step.raw), turn.span_id
    lasted = 0 if event.operation == PROMPT else _nanoseconds(values)
    began = step.time if step.emitter.is_stamped_at_start else max(0, step.time - lasted)
    span.start_time_unix_nano, span.end_time_unix_nano = began, began + lasted
    span.name = f"{event.operation} {written.get(_NAMES[event.operation], '')}".rstrip()
    if error := _error(event, values):
        span.status.code, span.status.message = Status.STATUS_CODE_ERROR, error
    for key, value in written.items():
        _write(span.attributes.add(key=key).value, value)
    renamed = {name for names in (*RENAMED[event.operation].values(), *TOKENS.values()) for name in names}
    for key in values.keys() - written.keys() - renamed - {*event.words, *event.body}:
        span.attributes.add(key=key).value.CopyFrom(values[key])
    return span


def _written(step: _EventStep) -> _Written:
    """Return what an event tells, in the GenAI conventions."""
    event, values, emitter = step.event, step.values, step.emitter
    written: _Written = {
        semconv.GEN_AI_OPERATION_NAME: event.operation,
        semconv.GEN_AI_AGENT_NAME: emitter.agent,
    }
    if session := _text(values, *emitter.session):
        written[semconv.GEN_AI_CONVERSATION_ID] = session
    if emitter.provider and event.operation == CALL:
        written[semconv.GEN_AI_PROVIDER_NAME] = emitter.provider
    for key, names in RENAMED[event.operation].items():
        if (name := next((name for name in names if _text(values, name) or name in values), None)) is not None:
            written[key] = _text(values, name) or values[name]
    if written.get(semconv.GEN_AI_TOOL_NAME) == _MCP_TOOL:
        written[semconv.GEN_AI_TOOL_NAME] = _mcp_name(values)
    if event.operation == CALL:
        written |= _tokens(values, emitter)
    if messages := _messages(event, values):
        key = semconv.GEN_AI_INPUT_MESSAGES if event.operation == PROMPT else semconv.GEN_AI_OUTPUT_MESSAGES
        written[key] = json.dumps(messages, ensure_ascii=False)
    if event.refused:
        written[semconv.ERROR_TYPE] = _REFUSED
    elif event.operation == TOOL and _text(values, _SUCCESS) == "true":
        written[_TOOL_STATUS] = _SUCCESS
    if (cost := _number(values, _COST)) is not None:
        written[_COST] = cost
    return written


def _tokens(values: _Values, emitter: Emitter) -> dict[str, int]:
    """Return the tokens of a call. In the conventions, the input includes cached ones, and the output reasoning."""
    counts = {key: int(count) for key, names in TOKENS.items() if (count := _number(values, *names)) is not None}
    for key, others, is_beside in (
        (semconv.GEN_AI_USAGE_INPUT_TOKENS, (CACHE_READ, CACHE_WRITE), emitter.are_cached_beside),
        (semconv.GEN_AI_USAGE_OUTPUT_TOKENS, (REASONING,), emitter.are_thoughts_beside),
    ):
        if is_beside and key in counts:
            counts[key] += sum(counts.get(other, 0) for other in others)
    return counts


def _messages(event: AgentEvent, values: _Values) -> list[Any]:
    """Return the messages that an event holds. Words that are not for the user are left out."""
    if event.spoken_if is not None:
        key, beginnings = event.spoken_if
        if not (_text(values, key) or "").startswith(tuple(beginnings)):
            return []
    if (words := known_text(_text(values, *event.words))) is not None:
        role = "user" if event.operation == PROMPT else "assistant"
        return [{"role": role, "parts": [{"type": "text", "content": words}]}]
    with suppress(ValueError, RecursionError):
        # What is no JSON was cut: it is left out, and not guessed.
        return _reply(json.loads(_text(values, *event.body) or "[]"))
    return []


def _reply(body: Any) -> list[Any]:
    """Return the messages of a response: Anthropic's, or the pieces of a stream of Gemini's."""
    if isinstance(body, dict):
        return [{"role": "assistant", "content": body["content"]}] if isinstance(body.get("content"), list) else []
    parts: list[dict[str, Any]] = []
    for piece in body if isinstance(body, list) else []:
        for part in _parts_of_gemini(piece):
            call = part.get("functionCall")
            if isinstance(call, dict):
                request = {"id": call.get("id"), "name": call.get("name"), "arguments": call.get("args")}
                parts.append({"type": "tool_call", **request})
            elif isinstance(text := part.get("text"), str):
                kind = "reasoning" if part.get("thought") else "text"
                if parts and parts[-1]["type"] == kind:
                    parts[-1]["content"] += text
                else:
                    parts.append({"type": kind, "content": text})
    return [{"role": "assistant", "parts": parts}] if parts else []


def _parts_of_gemini(piece: Any) -> list[dict[str, Any]]:
    try:
        return [part for part in piece["candidates"][0]["content"]["parts"] if isinstance(part, dict)]
    except (KeyError, IndexError, TypeError):
        return []


def _error(event: AgentEvent, values: _Values) -> str | None:
    """Return the words of a failure; None if the step did not fail."""
    is_failed_tool = event.operation == TOOL and _text(values, _SUCCESS) == "false" and not event.refused
    if not event.failed_if and not is_failed_tool:
        return None
    output = RENAMED[TOOL][semconv.GEN_AI_TOOL_CALL_RESULT]
    return _text(values, *ERRORS, *(output if is_failed_tool else ())) or "failed"


def _mcp_name(values: _Values) -> str:
    """Return the name by which a model calls a tool of an MCP server, if the event tells it."""
    with suppress(ValueError, RecursionError):
        named = json.loads(_text(values, "tool_parameters") or "{}")
        if isinstance(named, dict) and named.get("mcp_server_name") and named.get("mcp_tool_name"):
            return f"mcp__{named['mcp_server_name']}__{named['mcp_tool_name']}"
    return _MCP_TOOL


def _nanoseconds(values: _Values) -> int:
    duration = _number(values, *_DURATION)
    return SHORTEST if duration is None else min(round(duration * 1e6), LONGEST)


def _number(values: _Values, *keys: str) -> float | None:
    """Return the number under the first of `keys` that has one, also as text; None if it is none, or below 0."""
    for key in keys:
        with suppress(ValueError):
            number = float(_text(values, key) or "-")
            return number if 0 <= number < 1e15 else None
    return None


def _text(values: _Values, *keys: str) -> str | None:
    """Return the text, the number or the truth value under the first of `keys` that has one, as text."""
    for key in keys:
        value = values.get(key)
        kind = value.WhichOneof("value") if value is not None else None
        if kind in ("string_value", "int_value", "double_value", "bool_value"):
            plain = getattr(value, kind)
            if text := str(plain).lower() if kind == "bool_value" else str(plain):
                return text
    return None


def _values(attributes: Iterable[KeyValue]) -> _Values:
    return {attribute.key: attribute.value for attribute in attributes}


def _write(target: AnyValue, value: str | int | float | AnyValue) -> None:
    match value:
        case AnyValue():
            target.CopyFrom(value)
        case str():
            target.string_value = value
        case int():
            target.int_value = value
        case _:
            target.double_value = value


def _digest(size: int, *texts: bytes) -> bytes:
    return blake2b(b"\0".join(texts), digest_size=size).digest()
