"""Messages between user, model and tools, in the terms of the GenAI conventions. Every dialect reads content into them.

The forms that are read: the GenAI message JSON (`role`, `parts`), that of the chat APIs (`content`, `tool_calls`),
items of the Responses API, LangChain's serialisations of either, Haystack's objects, the parts of Vercel's AI SDK, the
typeless parts of Bedrock's and Gemini's APIs, and the objects of Pydantic AI and AutoGen.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeAlias, TypeGuard

from otel_agenteval.conventions.decoding import (
    decode_arguments,
    decode_text,
    decode_value,
    first_text,
    known_text,
    object_in,
    objects_in,
    texts_of,
)
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.model import Json

USER, ASSISTANT, SYSTEM, TOOL = "user", "assistant", "system", "tool"

_STRUCTURE = re.compile(r'[\s"]*(?:\[\s*\{|\{)')
_CALLS = ("toolUse", "function_call", "functionCall", "toolRequest", "tool_call")
_RESULTS = ("toolResult", "function_response", "functionResponse", "toolResponse", "tool_call_result")
_REASONING = "reasoningContent"
_CALL_IDS = ("call_id", "id", "toolUseId", "toolCallId", "tool_call_id", "ref")
_RESULT = ("response", "content", "output", "result")
_ITEM_OF_CALL = "fc_call_"
_BLOCK_TYPE = "block_type"
_PART_KIND = "part_kind"
# The kinds of the parts of Pydantic AI's own messages.
_PART_KINDS = {
    "user-prompt": "text",
    "text": "text",
    "thinking": "thinking",
    "tool-call": "tool_call",
    "tool-return": "tool_result",
    "retry-prompt": "tool_result",
}
_RETRY = "retry-prompt"
_TYPELESS = frozenset((*_CALLS, *_RESULTS, _REASONING, _BLOCK_TYPE, _PART_KIND, "thought"))
_KINDS = _TYPELESS | {"type", "text", "content"}
_ROLES = {
    "human": USER,
    "ai": ASSISTANT,
    "AIMessageChunk": ASSISTANT,
    "model": ASSISTANT,
    "function": TOOL,
    "developer": SYSTEM,
}
_PLAIN = {"role", "parts"}
"""The fields of a message as the GenAI conventions have it."""
_SPEAKERS = frozenset((USER, ASSISTANT, SYSTEM, TOOL))
_CONSTRUCTOR = "constructor"
"""The type of an object that LangChain has written as JSON."""
# Pydantic AI's messages have a kind in place of a role.
_MESSAGE_KINDS = {"request": USER, "response": ASSISTANT}
# AutoGen's messages have a type, and a source that is the user or the name of an agent.
_AUTOGEN = {
    "TextMessage": ASSISTANT,
    "ToolCallSummaryMessage": ASSISTANT,
    "ToolCallRequestEvent": ASSISTANT,
    "ToolCallExecutionEvent": TOOL,
}
# Items of the Responses API that are calls, results and thoughts, and so have no role.
_ITEMS = {"function_call": ASSISTANT, "function_call_output": TOOL, "reasoning": ASSISTANT}


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A model's request for a tool; `arguments` as in `ToolCall`."""

    name: str
    arguments: Json = None
    call_id: str | None = None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class ToolResponse:
    """A tool's result as it went back to the model; `failed` is True if it is marked as an error."""

    result: Json
    call_id: str | None = None
    failed: bool = False


@checked_dataclass(slots=True, kw_only=True)
class ChatMessage:
    """One message, without what was redacted or is empty.

    `is_empty`: the record says that the message is empty. `has_more`: it holds something that is not read here, such as
    an image. `finish_reason`: why the model stopped. These do not count when messages are compared, because messages
    lack them when they are sent back to a model.
    """

    role: str
    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    requests: list[ToolRequest] = field(default_factory=list)
    responses: list[ToolResponse] = field(default_factory=list)
    is_empty: bool = field(default=False, compare=False)
    has_more: bool = field(default=False, compare=False)
    finish_reason: str | None = field(default=None, compare=False)

    @property
    def text(self) -> str | None:
        """The message's text parts, one per line; None without any."""
        return "\n".join(self.texts) if self.texts else None

    @property
    def begins_turn(self) -> bool:
        """True if the user says something. Texts beside results of tools belong to the turn of those tools."""
        return self.role == USER and bool(self.texts) and not self.responses


Item: TypeAlias = "Json | ChatMessage"
"""A message, read or still as it was recorded."""


def spoken_by(message: ChatMessage) -> str | None:
    """Return the texts of a message, empty if it says that there is none; None if it does not say."""
    return message.text or ("" if message.is_empty and not message.has_more else None)


def read_message(value: Json) -> ChatMessage | None:
    """Return the message that `value` describes; None if it describes none."""
    if not isinstance(value, dict):
        return None
    return _read_plain(value) or _read_any(value)


def _read_plain(value: dict[str, Json]) -> ChatMessage | None:
    """Return a message in the form of the GenAI conventions, which most have; None if it has another form."""
    if value.keys() != _PLAIN or not isinstance(role := value["role"], str) or role not in _SPEAKERS:
        return None
    message = ChatMessage(role=role)
    _read_parts(message, parts := value["parts"])
    message.is_empty = message.is_empty or parts == []
    return message if message.responses or role != TOOL else None


def _read_any(value: dict[str, Json]) -> ChatMessage | None:
    fields = _unwrapped(value)
    role = (
        fields.get("role") or fields.get("type") or ("parts" in fields and _MESSAGE_KINDS.get(str(fields.get("kind"))))
    )
    if not isinstance(role, str):
        return None
    if role in _AUTOGEN and "source" in fields:
        return _read_autogen(role, fields)
    if role in _ITEMS:
        message = ChatMessage(role=_ITEMS[role])
        _read_part(message, fields)
        return message
    message = ChatMessage(role=_ROLES.get(role, role), finish_reason=known_text(fields.get("finish_reason")))
    for key in ("parts", "content"):
        if (items := fields.get(key)) is not None:
            _read_parts(message, items)
            message.is_empty = message.is_empty or items == []
    if "blocks" in fields:
        _read_parts(message, fields["blocks"])
    for request in objects_in(fields.get("tool_calls")):
        _read_request(message, request)
    if message.role == TOOL and not message.responses:
        _read_result(message, fields)
    if text := known_text(fields.get("reasoning_content")):
        message.reasoning.append(text)
    if text := known_text(fields.get("refusal")):
        message.texts.append(text)
    # Beside the text, in replies of OpenAI's and alike.
    message.has_more = message.has_more or bool(fields.get("audio") or fields.get("images"))
    return message


def _read_autogen(kind: str, fields: Mapping[str, Json]) -> ChatMessage:
    """Read AutoGen's object of a message. Its requests and results are told apart by the message's type alone."""
    message = ChatMessage(role=USER if fields["source"] == USER else _AUTOGEN[kind])
    content = fields.get("content")
    if isinstance(content, str):
        _read_parts(message, content)
    for item in content if isinstance(content, list) else ():
        if isinstance(item, dict) and "call_id" in item:
            failed = item.get("is_error") is True
            _add_response(message, item.get("content"), known_text(item["call_id"]), failed)
        elif isinstance(item, dict):
            _read_request(message, item)
    return message


def _read_result(message: ChatMessage, fields: Mapping[str, Json]) -> None:
    """Make the response of a tool from the text of its message."""
    call_id = known_text(fields.get("tool_call_id"))
    if call_id is None:  # LlamaIndex has it in another place.
        call_id = known_text(object_in(fields.get("additional_kwargs")).get("tool_call_id"))
    if call_id or message.texts:
        # LangChain marks a result that is an error.
        failed = fields.get("status") == "error"
        message.responses.append(ToolResponse(result=decode_text(message.text), call_id=call_id, failed=failed))
        message.texts = []


def are_parts(value: Json) -> TypeGuard[list[Json]]:
    """Return whether `value` is a list of message parts, and not some other JSON in a message."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(item, dict) and not _KINDS.isdisjoint(item) for item in value)


def message_items(value: Json, role: str) -> Sequence[Item]:
    """Return the messages in `value`, which may be JSON text, or JSON text inside JSON text."""
    value = decode_value(value)
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        messages = value.get("messages")
        return messages if isinstance(messages, list) else [value]
    if value is not None and (not isinstance(value, str) or _STRUCTURE.match(value)):
        return [value]  # It was meant to be messages and cannot be read. Nobody said these words.
    text = known_text(value)
    return [ChatMessage(role=role, texts=[text])] if text else []


def looks_structured(text: str) -> bool:
    """Return whether a text begins like JSON for messages."""
    return _STRUCTURE.match(text) is not None


def _unwrapped(value: dict[str, Json]) -> Mapping[str, Json]:
    """Return the fields of a message: inside LangChain's envelopes {"type": "ai", "data": {...}} and {"lc": 1,
    "kwargs": {...}}, or in Haystack's objects with private fields."""
    if "_role" in value:
        return {"role": value["_role"], "content": value.get("_content")}
    if "role" not in value:
        inner = value.get("data") or value.get("kwargs")
        if isinstance(inner, dict):
            kind = value.get("type")
            if kind == _CONSTRUCTOR and isinstance(path := value.get("id"), list) and path:
                # JavaScript's has its kind in the name of its class alone.
                kind = str(path[-1]).removesuffix("Message").lower()
            return {"type": kind, **inner}
    return value


def _read_parts(message: ChatMessage, items: Json) -> None:
    for item in items if isinstance(items, list) else (items,):
        if isinstance(item, str):
            item = {"type": "text", "content": item}  # noqa: PLW2901 - the same part, spelled out
        if isinstance(item, dict):
            _read_part(message, item)


def _read_part(message: ChatMessage, item: Mapping[str, Json]) -> None:
    """Add a part to the message. Of parts without text or tools (blobs, files, new kinds) only `has_more` tells."""
    match item.get("type"):
        case "text" if text := known_text(item.get("content")):  # Most parts are.
            message.texts.append(text)
        case None if not _TYPELESS.isdisjoint(item):
            _read_typeless(message, item)
        case None if "tool_name" in item and "arguments" in item:
            _read_request(message, {**item, "name": item["tool_name"]})
        case None if "result" in item and isinstance(origin := item.get("origin"), dict):
            _add_response(message, item["result"], known_text(origin.get("id")), item.get("error") is True)
        case "text" | "input_text" | "output_text" | "refusal" | None:
            contents = [item[key] for key in ("content", "text", "refusal") if key in item]
            if text := next(filter(None, map(known_text, contents)), None):
                message.texts.append(text)
            elif any(isinstance(text, str) and not text.strip() for text in contents):
                message.is_empty = True
            else:
                message.has_more = True
        case "reasoning" | "thinking":
            text = first_text(item, "content", "thinking", "text")
            message.reasoning += [text] if text else texts_of(item.get("summary")) or texts_of(item.get("content"))
        case "tool_call" | "tool_use" | "function_call" | "tool-call":
            _read_request(message, item)
        case "tool_call_response" | "tool_result" | "function_call_output" | "tool-result":
            result, failed = _told_by(item)
            _add_response(message, result, first_text(item, "call_id", "id", "tool_use_id", "toolCallId"), failed)
        case _:
            message.has_more = True


def _told_by(item: Mapping[str, Json]) -> tuple[Json, bool]:
    """Return the result in a part, and whether it is marked as an error."""
    result = next((item[key] for key in ("response", "result", "content", "output") if key in item), None)
    if item["type"] == "tool-result" and isinstance(result, dict) and {"type", "value"} <= result.keys():
        # Vercel's AI SDK says beside the value what it is: a text, JSON, or an error in one of these forms.
        return result["value"], str(result["type"]).startswith("error")
    return result, item.get("is_error") is True


def _read_typeless(message: ChatMessage, item: Mapping[str, Json]) -> None:
    """Add a part of Bedrock's or Gemini's API: its fields say what it is. LlamaIndex calls the type otherwise."""
    if _BLOCK_TYPE in item:
        _read_part(message, {**item, "type": item[_BLOCK_TYPE]})
        return
    if _PART_KIND in item:
        kind = str(item[_PART_KIND])
        of_call = kind != _RETRY or item.get("tool_name")  # Else the model is asked to answer in another form.
        called = {"name": item.get("tool_name"), "is_error": kind == _RETRY}
        _read_part(message, {**item, **called, "type": _PART_KINDS.get(kind, kind) if of_call else "text"})
        return
    if text := known_text(item.get("text")):
        (message.reasoning if item.get("thought") is True else message.texts).append(text)
    elif isinstance(written := item.get("text"), str) and not written.strip():
        message.is_empty = True
    for key, value in item.items():
        if not isinstance(value, dict):
            continue
        if key in _CALLS:
            _read_request(message, value)
        elif key in _RESULTS:
            result = next((value[name] for name in _RESULT if name in value), None)
            call_id = first_text(value, *_CALL_IDS) or first_text(object_in(value.get("origin")), "id")
            _add_response(message, result, call_id, value.get("status") == "error" or value.get("error") is True)
        elif key == _REASONING and isinstance(reasoning := value.get("reasoningText"), dict):
            message.reasoning += filter(None, [known_text(reasoning.get("text"))])


def _add_response(message: ChatMessage, result: Json, call_id: str | None, failed: bool) -> None:
    message.responses.append(ToolResponse(result=decode_text(result), call_id=call_id, failed=failed))


def _read_request(message: ChatMessage, request: Mapping[str, Json]) -> None:
    function = request.get("function")
    source = function if isinstance(function, dict) else request
    if name := first_text(source, "name", "toolName", "tool_name"):
        arguments = next((source[key] for key in ("arguments", "input", "args", "tool_kwargs") if key in source), None)
        call_id = first_text(request, *_CALL_IDS)
        # Traceloop records the id of the item in the Responses API. Gateways make it of the call's own id, and results
        # name the call by that id alone.
        if call_id is not None and call_id.startswith(_ITEM_OF_CALL):
            call_id = call_id.removeprefix("fc_")
        message.requests.append(ToolRequest(name=name, arguments=decode_arguments(arguments), call_id=call_id))


def joined_chunks(items: Sequence[Item]) -> Sequence[Item]:
    """Return a reply's messages with its chunks joined to one message. Other messages stay as they are.

    Google ADK records every chunk of a streamed reply as a message of its own, with an empty `finish_reason`. The
    whole reply follows as the last message, or only its end.
    """
    chunks = [item for item in items if isinstance(item, dict) and item.get("finish_reason") == ""]
    if not chunks:
        return items
    others = [item for item in items if not isinstance(item, dict) or item.get("finish_reason") != ""]
    read = [message for chunk in chunks if (message := read_message(chunk))]
    streamed = "".join(text for message in read for text in message.texts)
    end = (others[-1] if isinstance(others[-1], ChatMessage) else read_message(others[-1])) if others else None
    if end is None:
        return [*others, ChatMessage(role=read[0].role, texts=[streamed])] if streamed else others
    if streamed and not "".join(end.texts).startswith(streamed):
        end.texts = ["".join((streamed, *end.texts))]
    return [*others[:-1], end]
