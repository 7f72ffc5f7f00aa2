"""What frameworks put around the result of a tool: message objects, lists of content, JSON in JSON, Python reprs."""

import ast
import json
import re
from collections.abc import Mapping
from typing import Final

from otel_agenteval.detectors.fingerprints import MAX_DECODED
from otel_agenteval.model import Json

DEPTH: Final = 6
"""Envelopes around each other that are taken off at most."""
_BEGINS_JSON: Final = ("{", "[", '"')
# Objects with nothing but these fields beside the content are envelopes, whoever made them.
_CONTENT: Final = (
    *("content", "result", "output", "response", "value", "return_value", "tool_result", "toolResult", "data", "text"),
)
_AROUND: Final = frozenset(
    (
        *(
            "type",
            "role",
            "name",
            "id",
            "kind",
            "lc",
            "graph",
            "status",
            "isError",
            "is_error",
            "metadata",
            "_meta",
            "meta",
        ),
        *("tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "call_id", "toolName", "tool_name", "part_kind"),
        *("additional_kwargs", "response_metadata", "usage_metadata", "artifact", "annotations", "structuredContent"),
        *("mimeType", "cache_control", "timestamp", "raw_output", "raw_input", "preview", "is_delta", "blocks"),
    )
)
_REPR: Final = re.compile(
    r"(?:\w+\()?content=(?P<quote>['\"])(?P<content>.*?)(?P=quote)(?: \w+=|, \w+=|\)|$)", re.DOTALL
)
_MEDIA: Final = frozenset(("image", "audio", "resource", "image_url", "file", "blob"))


def unwrapped(result: Json) -> tuple[Json, bool]:
    """Return what a tool gave, without the envelopes around it, and whether one of them says that the call failed.

    Text that is JSON, or a dictionary in Python's notation, is decoded, up to `MAX_DECODED` characters.
    """
    says_failed = False
    value = result
    for _ in range(DEPTH):
        inner = _decoded(value) if isinstance(value, str) else value
        if isinstance(inner, dict):
            says_failed = says_failed or _says_failed(inner)
            inner = _inside(inner)
        elif isinstance(inner, list):
            inner = _joined(inner)
        if inner is value:
            break
        value = inner
    return value, says_failed


def _says_failed(envelope: Mapping[str, Json]) -> bool:
    return (
        envelope.get("isError") is True
        or envelope.get("is_error") is True
        or envelope.get("type") in ("error-text", "error-json", "tool-error", "execution-denied")
        or (envelope.get("status") == "error" and not {"tool_call_id", "toolUseId"}.isdisjoint(envelope))
    )


def _inside(envelope: Mapping[str, Json]) -> Json:
    """Return the content of an envelope; an object that is none as it is."""
    if len(envelope) > len(_AROUND) or any(
        "exit" in key.lower() for item in envelope.values() if isinstance(item, dict) for key in item
    ):
        return dict(envelope)
    for key in _CONTENT:
        if key in envelope and all(other == key or other in _AROUND for other in envelope):
            inner = envelope[key]
            is_alone = len(envelope) == 1
            # `{"data": []}` and `{"value": 3}` are results by themselves.
            if (
                isinstance(inner, str | list | dict)
                and (inner or not is_alone)
                and not (is_alone and key in ("data", "value", "text"))
            ):
                return inner
    if "error" not in envelope and "jsonrpc" in envelope and isinstance(envelope.get("result"), dict | list | str):
        return envelope["result"]
    return envelope  # type: ignore[return-value]


def _joined(items: list[Json]) -> Json:
    """Return the text of a list of content parts (MCP, Anthropic, OpenAI); any other list as it is."""
    texts = []
    for item in items[:100]:
        if not isinstance(item, dict):
            return items
        kind = item.get("type", "text" if {*item} <= {"text", "json"} and item else None)
        if isinstance(text := item.get("text"), str) and kind in ("text", "output_text", "input_text"):
            texts.append(text)
        elif kind not in _MEDIA:
            return items
    return "\n".join(texts) if texts else items


_PYTHON: Final = re.compile(r"""[\[{,:(]\s*'|\b(?:None|True|False)\b""")
"""What stands in the repr of a list or a dictionary, and not in JSON."""


def _is_python(text: str) -> bool:
    # The expression takes long for a text that has neither quotes nor names of Python.
    return ("'" in text or "None" in text or "True" in text or "False" in text) and _PYTHON.search(text) is not None


def _decoded(text: str) -> Json:
    if len(text) > MAX_DECODED:
        return text
    stripped = text.strip()
    if stripped.startswith(_BEGINS_JSON):
        try:
            return json.loads(stripped)  # type: ignore[no-any-return]
        except (ValueError, RecursionError):
            pass
        # Only what Python writes otherwise than JSON is worth the attempt, which takes long.
        if stripped[0] in "{[" and len(stripped) < MAX_DECODED // 4 and _is_python(stripped):
            try:
                value = ast.literal_eval(stripped)
            except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
                return text
            return value if isinstance(value, dict | list) and _is_json(value) else text
    elif (match := _REPR.match(stripped)) is not None:
        return match["content"].replace("\\n", "\n").replace("\\'", "'")
    return text


def _is_json(value: object, depth: int = 20) -> bool:
    if depth and isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item, depth - 1) for key, item in value.items())
    if depth and isinstance(value, list):
        return all(_is_json(item, depth - 1) for item in value)
    return value is None or isinstance(value, str | int | float | bool)
