"""JSON as it stands in telemetry: text in text, cut in the middle, spread over attributes, redacted, hostile.

All errors of decoding are ValueError, and all values that come out can be written as JSON again.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from otel_agenteval.model import Json

_REDACTED: Final = re.compile(
    r"__REDACTED__|[\[<(]?REDACTED[\])>]?|readacted|<not (?:specified|serializable)>|\[Scrubbed due to .*", re.DOTALL
)
# Every redaction begins with one of these, and few other texts do. This check is much faster than the expression.
_REDACTED_BEGINS: Final = frozenset("_[<(Rr")


def known_text(text: Any) -> str | None:
    """Return `text` if it says anything; None for other types, blank text, and the mark that a redaction leaves."""
    if not isinstance(text, str):
        return None
    # An expression with blanks at both ends takes time that grows with the square of the number of blanks.
    stripped = text.strip()
    if not stripped or (stripped[0] in _REDACTED_BEGINS and _REDACTED.fullmatch(stripped)):
        return None
    return text


def first_text(fields: Mapping[str, Json], *keys: str) -> str | None:
    """Return the text under the first of `keys` that says anything; None without one."""
    for key in keys:
        if (text := known_text(fields.get(key))) is not None:
            return text
    return None


MAX_DEPTH = 64
"""Levels of arrays and objects in a value that is passed on. Writing JSON recurses, so deeper ones are not."""

_BEGIN_STRUCTURE: Final = frozenset('[{"')
_ESCAPED_SURROGATES = re.compile(r"\\\\|\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\u[dD][89a-fA-F]\w\w")
_BEGINNING = re.compile(r'\{\s*(?:["}]|\Z)|\[\s*(?:[\[\]{"\d-]|\Z)')
_TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_DANGLING_ESCAPE = re.compile(r"(?:\\u[dD][89abAB]\w\w)?\\(?:u\w{0,3})?\Z|\\u[dD][89abAB]\w\w\Z")


def decode_json(text: str) -> Json:
    """Return the value that `text` writes. Raises ValueError if it is not JSON."""
    if "\\u" in text:
        text = _ESCAPED_SURROGATES.sub(_whole, text)
    try:
        value: Json = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("JSON is nested too deeply to be read") from None
    return value


def decode_prefix(text: str) -> Json:
    """Return what remains of JSON text that was cut in the middle; its last element may be a part only. Raises
    ValueError if nothing remains."""
    closing: list[str] = []
    last = ""
    whole = (0, "")
    for token in _TOKENS.finditer(text):
        last = token[0]
        if last in "[{":
            closing.append("]" if last == "[" else "}")
            whole = (token.end(), "".join(reversed(closing)))
        elif last in "]}":
            if not closing or closing.pop() != last:
                raise ValueError("brackets do not match")
        elif last == ",":
            whole = (token.start(), "".join(reversed(closing)))
        if len(closing) > MAX_DEPTH:
            raise ValueError("JSON is nested too deeply to be read")
    if not closing:
        raise ValueError("not the beginning of an array or object")
    if last[0] == '"' and text.endswith(last):
        text = _DANGLING_ESCAPE.sub("", text) + ("" if len(last) > 1 and last[-1] == '"' else '"')
    try:
        return decode_json(text + "".join(reversed(closing)))
    except ValueError:
        end, tail = whole
        return decode_json(text[:end] + tail)


def is_cut(value: Json) -> bool:
    """Return whether `value` is text that begins like a JSON array or object and does not end like one."""
    if not isinstance(value, str) or value[:1] not in ("[", "{") or value.rstrip()[-1:] in ("]", "}"):
        return False
    return _BEGINNING.match(value) is not None


def decode_arguments(value: Json) -> Json:
    """Decode the arguments of a tool call, JSON inside JSON as well; return the text if it is not JSON."""
    value = decode_structure(value)
    if isinstance(value, dict):
        return called_with(value)
    return {} if value == "" else known_text(value) if isinstance(value, str) else value


def are_positional(arguments: Json) -> bool:
    """Return whether decoded arguments still describe a Python call, some of whose values have no names."""
    return isinstance(arguments, dict) and arguments.keys() == {"args", "kwargs"}


def decode_structure(value: Json) -> Json:
    """Return the array or object that `value` is, or that its text describes; else `value` itself. JSON text inside
    JSON text is decoded once more. An array or object nested deeper than `MAX_DEPTH` is None, or stays the text it
    was."""
    decoded = value
    for _ in range(2):
        # Anything else, such as most results of tools, is not worth the attempt and its error.
        if not isinstance(decoded, str) or decoded.lstrip()[:1] not in _BEGIN_STRUCTURE:
            break
        try:
            decoded = decode_json(decoded)
        except ValueError:
            return value
    if not isinstance(decoded, dict | list):
        return value
    if _is_deep(decoded):
        return value if isinstance(value, str) else None
    return decoded


def decode_value(value: Json) -> Json:
    """Return the value of text that is JSON, or JSON inside JSON; if it was cut, what remains. Other text, and text
    of which nothing can be read, stays as it is."""
    for _ in range(2):
        if not isinstance(value, str) or value.lstrip()[:1] not in _BEGIN_STRUCTURE:
            break
        try:
            value = decode_prefix(value) if is_cut(value) else decode_json(value)
        except ValueError:
            break
    return value


def decode_remains(value: Json) -> Json:
    """Decode like `decode_structure`. Of an array or object that was cut, return what is left, None if nothing
    is."""
    if not isinstance(value, str) or not is_cut(value):
        return decode_structure(value)
    try:
        return decode_prefix(value)
    except ValueError:
        return None


def decode_text(value: Json) -> Json:
    """Return a tool's result. Text blocks, and text that was written as a JSON string, are unwrapped to plain text."""
    if isinstance(value, str):
        if value[:1] != '"' and not value.startswith('[{"t'):
            return known_text(value)
        try:
            inner = decode_json(value)
        except ValueError:
            return value
        if isinstance(inner, str):
            return known_text(inner)
        return blocks if (blocks := text_of_blocks(inner)) is not None else value
    blocks = text_of_blocks(value)
    return blocks if blocks is not None else decode_structure(value)


def called_with(wrapper: dict[str, Json]) -> Json:
    """Return the arguments in {"args": [...], "kwargs": {...}}, as decorators record a call; else `wrapper` itself."""
    if "kwargs" not in wrapper or ("args" not in wrapper and len(wrapper) > 1):
        return wrapper
    positional, named = wrapper.get("args", []), wrapper["kwargs"]
    if not positional and isinstance(named, dict):
        return named
    if not named and isinstance(positional, list) and len(positional) == 1 and isinstance(positional[0], dict):
        return positional[0]
    return wrapper


def text_of_blocks(value: Json) -> str | None:
    """Return the texts of a list of text blocks, which is how tools of MCP give a result; None for anything else."""
    if not isinstance(value, list) or not value:
        return None
    texts = []
    for block in value:
        if not isinstance(block, dict) or not isinstance(block.get("text"), str):
            return None
        if not block.keys() <= {"type", "block_type", "text", "annotations"}:
            return None
        texts.append(str(block["text"]))
    return "\n".join(texts)


def _is_deep(value: dict[str, Json] | list[Json]) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _whole(escape: re.Match[str]) -> str:
    """Replace half of a surrogate pair: it cannot be written as UTF-8."""
    return r"\ufffd" if len(escape[0]) == 6 else escape[0]


def _finite(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


# NaN and infinite numbers are not JSON, though Python reads them: they become text.
_DECODER = json.JSONDecoder(parse_constant=str, parse_float=_finite)

_MAX_SEGMENTS = 12
"""Levels that the name of an attribute may spell out."""


def object_in(value: Json) -> dict[str, Json]:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects_in(value: Json) -> list[dict[str, Json]]:
    """Return the objects in a list; none if `value` is something else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts_of(items: Json) -> list[str]:
    """Return the texts in a list of parts of a message."""
    return [text for item in objects_in(items) if (text := known_text(item.get("text")))]


def unflatten(attributes: Mapping[str, Json], prefix: str) -> list[Json]:
    """Return the list that attributes named `prefix.<index>...` spell out. Gaps close; the first of two values
    stays."""
    start = prefix + "."
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if not key.startswith(start):
            continue
        *path, leaf = key[len(start) :].split(".", _MAX_SEGMENTS)
        branch: Any = tree
        for segment in path:
            branch = branch.setdefault(segment, {})
            if not isinstance(branch, dict):
                break
        else:
            branch.setdefault(leaf, value)
    return _in_order(tree)


def _in_order(tree: dict[str, Any]) -> list[Json]:
    indexes = sorted((int(key), key) for key in tree if _is_index(key))
    return [_listed(tree[key]) for _, key in indexes]


def _listed(value: Any) -> Json:
    if not isinstance(value, dict) or not value:
        leaf: Json = value
        return leaf
    if all(map(_is_index, value)):
        return _in_order(value)
    return {key: _listed(child) for key, child in value.items()}


def _is_index(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) < 10
