"""Read arguments, results and replies on spans, without the wrapping that differs from call to call.

Content is hostile: nothing here raises for it, and none longer than `MAX_CONTENT` characters is decoded.
"""

import json
from typing import Any, Final

from otel_agenteval.conventions.failures import result_error
from otel_agenteval.model import Json

MAX_CONTENT: Final = 64 * 1024
"""Characters of arguments, of a result or of a reply that are decoded; longer ones are compared as text."""

MAX_WRAPPED: Final = 8
"""Wrappings inside one another that are taken off."""

_TEXT_TYPES: Final = ("text", "output_text", None)
_MESSAGE_TYPES: Final = ("text", "message", None)
_INSIDE: Final = ("choices", "message", "parts", "content", "messages", "output")
_NOT_RECORDED: Final = frozenset(("", "null", "__REDACTED__", "[REDACTED]", "REDACTED"))
# Without the search for white space that `json.loads` makes twice.
_decode: Final = json.JSONDecoder().raw_decode


def arguments_in(value: Any, depth: int = MAX_WRAPPED) -> Json:
    """Return arguments without the wrapping of callbacks and decorators, whose ids differ from call to call."""
    decoded = decoded_json(value)
    if isinstance(decoded, dict):
        if depth and "inputs" in decoded and ("kwargs" in decoded or "tags" in decoded):
            return arguments_in(decoded["inputs"], depth - 1)
        if "kwargs" in decoded and ("args" in decoded or len(decoded) == 1):
            positional, named = decoded.get("args"), decoded["kwargs"]
            if not positional and isinstance(named, dict):
                return named
            if not named and isinstance(positional, list) and len(positional) == 1 and isinstance(positional[0], dict):
                return positional[0]
        return value if isinstance(value, str) else decoded
    if isinstance(value, str) and value == "":
        return {}
    return value if _is_recorded(value) else None


def result_in(value: Any, depth: int = MAX_WRAPPED) -> Json:
    """Return a tool's result without the message around it, whose ids differ from call to call."""
    decoded = decoded_json(value)
    if isinstance(decoded, dict) and depth:
        if "output" in decoded and ("kwargs" in decoded or "tags" in decoded):
            return result_in(decoded["output"], depth - 1)
        inner = decoded.get("kwargs", decoded.get("data")) if decoded.keys() & {"kwargs", "data"} else decoded
        if isinstance(inner, dict) and "tool_call_id" in inner and "content" in inner:
            return result_in(inner["content"], depth - 1)
        if "blocks" in decoded and "tool_name" in decoded:
            return result_in(decoded["blocks"], depth - 1)
    elif isinstance(decoded, list) and (text := _text_of_blocks(decoded)) is not None:
        return text
    elif isinstance(decoded, str):
        return decoded if _is_recorded(decoded) else None
    return value if _is_recorded(value) else None


def error_in(result: Json, tool: str) -> str | None:
    """Return the error that a result of `tool` tells of, in words or by its fields; None where it tells of none."""
    is_long = isinstance(result, str) and len(result) > MAX_CONTENT and result.startswith("{")
    return None if is_long else result_error(result, tool)


def speech_in(value: Json) -> str | None:
    """Return the text of a model's reply; None where there is none, or only inside what is not decoded here."""
    return "\n".join(_texts(decoded_json(value), 6)) or None


def _texts(value: Any, depth: int) -> list[str]:
    """Return the texts of messages, in any shape that APIs and conventions give them; thoughts and tools are none."""
    if isinstance(value, list) and depth:
        said = [text for item in value if not _is_chunk(item) for text in _texts(item, depth - 1)]
        streamed = "".join(text for item in value if _is_chunk(item) for text in _texts(item, depth - 1))
        # Behind the chunks of a streamed reply stands the whole of it, or its end.
        return said if not streamed or "".join(said).startswith(streamed) else ["".join((streamed, *said))]
    if not isinstance(value, dict):
        return []
    kind = value.get("type")
    if kind in _TEXT_TYPES and isinstance(text := value.get("text"), str):
        return [text]
    for key in _INSIDE:
        inner = value.get(key)
        if isinstance(inner, str) and key == "content" and kind in _MESSAGE_TYPES:
            return [inner]
        if isinstance(inner, (dict, list)) and depth:
            return _texts(inner, depth - 1)
    return []


def _is_chunk(message: Any) -> bool:
    """Return whether a message is a chunk of one, as Google ADK writes down."""
    return isinstance(message, dict) and message.get("finish_reason") == ""


def _text_of_blocks(blocks: list[Any]) -> str | None:
    texts = [text for block in blocks if isinstance(block, dict) and isinstance(text := block.get("text"), str)]
    return "\n".join(texts) if texts and len(texts) == len(blocks) else None


def decoded_json(value: Any) -> Any:
    """Return the value of JSON text, decoded at most twice; text that is none, or is too long, stays as it is."""
    for _ in range(2):
        if not isinstance(value, str) or len(value) > MAX_CONTENT:
            break
        text = value.strip()
        if not text.startswith(("{", "[", '"')):
            break
        try:
            decoded, end = _decode(text)
        except (ValueError, RecursionError):
            break
        if end < len(text):
            break
        value = decoded
    return value


def _is_recorded(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and value.strip() in _NOT_RECORDED)
