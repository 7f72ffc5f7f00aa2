"""The light reader: it reads a step for the detectors beside the agent from a few attributes of one span.

It knows the spans of every dialect, but it decodes no conversation: what stands in messages alone, the collector reads.
Arguments, results and replies are read without wrapping that differs from call to call. Nothing here raises.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from otel_agenteval import semconv
from otel_agenteval.conventions.api_bodies import response, usage, usage_in
from otel_agenteval.conventions.decoding import called_with, text_of_blocks
from otel_agenteval.conventions.dialect import Attributes, SpanRole
from otel_agenteval.conventions.messages import ASSISTANT, ChatMessage, are_parts, joined_chunks, read_message
from otel_agenteval.conventions.model_questions import newest_of, question_of, sent_of
from otel_agenteval.conventions.registry import KEYS
from otel_agenteval.conventions.span_errors import without_traceback
from otel_agenteval.detectors.call_outcomes import RESULT, OutcomeReading, outcome_of
from otel_agenteval.detectors.fingerprints import MAX_DECODED, decoded_json
from otel_agenteval.detectors.steps import Step, StepKind
from otel_agenteval.detectors.tool_names import HANDS_OVER, only_hands_over, receiver_in
from otel_agenteval.model import AgentRun, Json

MAX_WRAPPED: Final = 8
"""Wrappings inside one another that are taken off."""

# An object with one of these keys is a message, not a part of one.
_ENVELOPES: Final = frozenset(("role", "data", "kwargs"))
_NAME: Final = '"name"'
_NOT_RECORDED: Final = frozenset(("", "null", "__REDACTED__", "[REDACTED]", "REDACTED"))


def arguments_in(value: Any, depth: int = MAX_WRAPPED) -> Json:
    """Return arguments without the wrapping of callbacks and decorators, which holds ids that differ from call to
    call."""
    decoded = decoded_json(value)
    if isinstance(decoded, dict):
        if depth and "inputs" in decoded and ("kwargs" in decoded or "tags" in decoded):
            return arguments_in(decoded["inputs"], depth - 1)
        arguments = called_with(decoded)
        return value if arguments is decoded and isinstance(value, str) else arguments
    if value == "":
        return {}
    return value if _is_recorded(value) else None


def result_in(value: Any, depth: int = MAX_WRAPPED) -> Json:
    """Return a tool's result without the message around it, which holds ids that differ from call to call."""
    decoded = decoded_json(value)
    if isinstance(decoded, dict) and depth:
        if "output" in decoded and ("kwargs" in decoded or "tags" in decoded):
            return result_in(decoded["output"], depth - 1)
        inner = decoded.get("kwargs", decoded.get("data")) if decoded.keys() & {"kwargs", "data"} else decoded
        if isinstance(inner, dict) and "tool_call_id" in inner and "content" in inner:
            return result_in(inner["content"], depth - 1)
        if "blocks" in decoded and "tool_name" in decoded:
            return result_in(decoded["blocks"], depth - 1)
    elif isinstance(decoded, list) and (text := text_of_blocks(decoded)) is not None:
        return text
    elif isinstance(decoded, str):
        return decoded if _is_recorded(decoded) else None
    return value if _is_recorded(value) else None


def outcome_in(result: Json, tool: str, arguments: Json = None) -> OutcomeReading:
    """Return what a result of `tool` tells of the call."""
    is_long = isinstance(result, str) and len(result) > MAX_DECODED and result.startswith("{")
    return RESULT if is_long else outcome_of(tool, arguments, result)


def speech_in(value: Json) -> str | None:
    """Return the text of a model's reply; None if there is none, or none that is read here."""
    return "\n".join(text for message in _messages_in(value) for text in message.texts) or None


def requests_in(reply: Any) -> int:
    """Return the number of tools that one reply of a model asks for. A single one may count as 0."""
    # Every request has a name. Most replies have at most one, so they need not be decoded.
    if not isinstance(reply, str) or reply.count(_NAME) < 2:
        return 0
    messages = list(_messages_in(reply))
    # Results in the output part it into several replies.
    return 0 if any(message.responses for message in messages) else sum(len(message.requests) for message in messages)


def _messages_in(value: Json) -> Iterator[ChatMessage]:
    decoded = decoded_json(value)
    if are_parts(decoded) and not any(isinstance(item, dict) and _ENVELOPES & item.keys() for item in decoded):
        decoded = {"role": ASSISTANT, "content": decoded}
    items = joined_chunks(response(decoded)) if isinstance(decoded, dict | list) else []
    messages = (item if isinstance(item, ChatMessage) else read_message(item) for item in items)
    return filter(None, messages)


def _is_recorded(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and value.strip() in _NOT_RECORDED)


Events = Iterable[tuple[str, Attributes]]

_STEP_KINDS: Final = {SpanRole.TOOL: StepKind.TOOL, SpanRole.MODEL: StepKind.MODEL}
# Every span is looked up in these, so they are made once from the tables of the dialects.
_KINDS: Final = {
    kind.key: {value: _STEP_KINDS[role] for value, role in kind.roles.items() if role in _STEP_KINDS}
    for kind in KEYS.kinds
}
_MARKS: Final = tuple((mark, _STEP_KINDS[role]) for mark, role in KEYS.marks)
_GENAI: Final = frozenset((*_KINDS, *(mark for mark, _ in _MARKS)))
_PREFIXES: Final = ("gen_ai.", "llm.")
_SESSIONS: Final = (semconv.GEN_AI_CONVERSATION_ID, semconv.SESSION_ID)


def kind_of(name: str, attributes: Attributes) -> StepKind:
    """Return the kind of a span as far as it is known. At its start, some instrumentations do not say: then OTHER."""
    kind = _kind(attributes)
    return StepKind.OTHER if kind is StepKind.TOOL and _steers(name, attributes) else kind


def is_genai(attributes: Attributes) -> bool:
    """Return whether a span has an attribute that GenAI instrumentations alone write."""
    return not _GENAI.isdisjoint(attributes) or any(key.startswith(_PREFIXES) for key in attributes)


def name_of(kind: StepKind, name: str, attributes: Attributes) -> str:
    """Return the tool's or the model's name, else the span's."""
    return _text(attributes, KEYS.tools if kind is StepKind.TOOL else KEYS.models) or _bare(name)


def session_of(attributes: Attributes) -> str | None:
    """Return the session that a span names in an attribute of the conventions; None if it names none."""
    return _text(attributes, _SESSIONS)


def step_of(
    *,
    span_id: str,
    name: str,
    attributes: Attributes,
    events: Events = (),
    failed: bool = False,
    status_message: str | None = None,
    agent: str | None = None,
    agent_run: AgentRun | None = None,
    started_at: int | None = None,
    ended_at: int | None = None,
) -> Step | None:
    """Return the step of a span that ended; None if it is neither a tool call nor a model call.

    `name` is the span's name, `failed` says whether its status is an error. `events` are pairs of name and attributes.
    Times are those of `Step`.
    """
    kind = _kind(attributes)
    ends_turn = False
    if kind is StepKind.OTHER and (receiver := _text(attributes, KEYS.handovers)) is not None:
        kind, ends_turn, name = StepKind.TOOL, True, f"{HANDS_OVER}{receiver}"
    elif kind is StepKind.TOOL and _steers(name, attributes):
        # A hand-over is no step of the agent's run, but the end of its turn.
        ends_turn = receiver_in(name_of(kind, name, attributes)) is not None
        kind = kind if ends_turn else StepKind.OTHER
    if kind is StepKind.OTHER:
        return None
    step = Step(
        kind=kind,
        name=name_of(kind, name, attributes),
        span_id=span_id,
        agent=agent,
        agent_run=agent_run,
        started_at=started_at,
        ended_at=ended_at,
    )
    if ends_turn:
        step.arguments = {}
    elif kind is StepKind.TOOL:
        _read_tool(step, attributes, events, failed, status_message)
    else:
        _read_model(step, attributes, events, failed, status_message)
    return step


def _read_tool(step: Step, attributes: Attributes, events: Events, failed: bool, status_message: str | None) -> None:
    arguments, answer = _first(attributes, KEYS.arguments), _first(attributes, KEYS.results)
    # Events are slow to get at, and most spans need none.
    by_event: dict[str, Attributes] = {}
    if failed or not arguments or not answer:
        by_event = dict(events)
        arguments, answer = (
            arguments or _told_in(by_event, KEYS.argument_events),
            answer or _told_in(by_event, KEYS.answer_events),
        )
    step.arguments, step.result = arguments_in(arguments), result_in(answer)
    step.error = _error(attributes, by_event, status_message) if failed else None
    if step.error in (None, "error", "_OTHER"):
        # The span has no text of its error. Its result may have.
        reading = outcome_in(step.result, step.name, step.arguments)
        is_text = step.error is not None and isinstance(step.result, str)
        step.error = (str(step.result) if is_text else reading.error) or step.error
        step.outcome = reading.outcome
    step.is_error_read = step.error is not None and not failed and semconv.ERROR_TYPE not in attributes


def _read_model(step: Step, attributes: Attributes, events: Events, failed: bool, status_message: str | None) -> None:
    text = _text(attributes, KEYS.reply_texts)
    reply = text or _first(attributes, KEYS.replies)
    by_event: dict[str, Attributes] = {}
    if failed or not reply:
        by_event = dict(events)
        reply = reply or _told_in(by_event, KEYS.answer_events)
    step.result, step.read = reply, None if text else speech_in
    step.asked, step.question = partial(newest_of, attributes), partial(question_of, attributes)
    step.sent = partial(sent_of, attributes)
    step.requests = requests_in(_first(attributes, KEYS.replies) or reply)
    step.error = _error(attributes, by_event, status_message) if failed else None
    step.tokens = _tokens(attributes)


def _kind(attributes: Attributes) -> StepKind:
    for key, kinds in _KINDS.items():
        if isinstance(value := attributes.get(key), str):
            return kinds.get(value, StepKind.OTHER)
    return next((kind for mark, kind in _MARKS if mark in attributes), StepKind.OTHER)


def _error(attributes: Attributes, events: Mapping[str, Attributes], status_message: str | None) -> str:
    exception = events.get(semconv.EXCEPTION_EVENT, {})
    texts = (exception.get(semconv.EXCEPTION_MESSAGE), exception.get(semconv.EXCEPTION_TYPE), status_message)
    told = next((text for text in texts if isinstance(text, str) and text.strip()), None)
    return without_traceback(told) or (_text(attributes, (semconv.ERROR_TYPE,)) or "error")


def _steers(name: str, attributes: Attributes) -> bool:
    """Return whether a tool's span is a framework's own step: it hands over, joins results, or only takes an answer."""
    called = name_of(StepKind.TOOL, name, attributes)
    # The name is looked at first: then the arguments of few tools are read.
    if receiver_in(called) is not None and only_hands_over(called, arguments_in(_first(attributes, KEYS.arguments))):
        return True
    return called in KEYS.steering_tools or called.startswith(KEYS.steering_prefixes)


def _told_in(events: Mapping[str, Attributes], keys: Iterable[tuple[str, str]]) -> Any:
    return next((text for event, key in keys if (text := events.get(event, {}).get(key)) is not None), None)


def _first(attributes: Attributes, keys: Iterable[str]) -> Any:
    for key in keys:
        if (value := attributes.get(key)) is not None:
            return value
    return None


def _text(attributes: Attributes, keys: Iterable[str]) -> str | None:
    for key in keys:
        if isinstance(value := attributes.get(key), str) and value.strip():
            return value
    return None


def _tokens(attributes: Attributes) -> int:
    counts = usage_in(attributes, KEYS.input_tokens, KEYS.output_tokens)
    if counts is None and (recorded := _first(attributes, KEYS.usage)) is not None:
        counts = usage(recorded)
    return counts.total if counts else 0


def _bare(name: str) -> str:
    for beginning in KEYS.tool_prefixes:
        name = name.removeprefix(beginning)
    for end in KEYS.tool_suffixes:
        name = name.removesuffix(end)
    return name
