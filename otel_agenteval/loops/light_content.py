"""Read arguments, results and replies on spans, without the wrapping that differs from call to call. Nothing here
raises."""

import json
from typing import Any, Final

from otel_agenteval.conventions.api_bodies import response
from otel_agenteval.conventions.chunks import joined_chunks
from otel_agenteval.conventions.decoding import called_with
from otel_agenteval.conventions.failures import result_error
from otel_agenteval.conventions.messages import ASSISTANT, Message, are_parts, read_message
from otel_agenteval.model import Json

MAX_CONTENT: Final = 64 * 1024
"""Characters of arguments, of a result or of a reply that are decoded; longer ones are compared as text."""

MAX_WRAPPED: Final = 8
"""Wrappings inside one another that are taken off."""

# What has one of these is a message, and no part of one.
_ENVELOPES: Final = frozenset(("role", "data", "kwargs"))
_NOT_RECORDED: Final = frozenset(("", "null", "__REDACTED__", "[REDACTED]", "REDACTED"))
# Without the search for white space that `json.loads` makes twice.
_decode: Final = json.JSONDecoder().raw_decode


def arguments_in(value: Any, depth: int = MAX_WRAPPED) -> Json:
    """Return arguments without the wrapping of callbacks and decorators, whose ids differ from call to call."""
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
    decoded = decoded_json(value)
    if are_parts(decoded) and not any(isinstance(part, dict) and _ENVELOPES & part.keys() for part in decoded):
        decoded = {"role": ASSISTANT, "content": decoded}
    items = joined_chunks(response(decoded)) if isinstance(decoded, dict | list) else []
    messages = (item if isinstance(item, Message) else read_message(item) for item in items)
    return "\n".join(text for message in messages if message for text in message.texts) or None


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
