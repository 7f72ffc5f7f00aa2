"""Decode Python's `repr` of an API's object, which some instrumentations record in place of JSON.

The text is translated to JSON token by token, and never evaluated.
"""

import json
import re
from typing import Final

from otel_agenteval.conventions.decoding import MAX_DEPTH, decode_json
from otel_agenteval.model import Json

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<number>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"""
    r"""|<[\w.]+:\s*(?P<member>'(?:[^'\\]|\\.)*'|-?\d+)>|(?P<constant>None|True|False)\b|(?P<object>[^\W\d][\w.]*\s*\()|(?P<field>[^\W\d][\w.]*)\s*="""
    r"""|(?P<opening>[\[({])|(?P<closing>[\])}])|(?P<last>(?<![\[({]),\s*(?=[\])}]))|(?P<mark>[,:]))""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_CONSTANTS: Final = {"None": "null", "True": "true", "False": "false"}
# An object begins with its name.
_OPENS: Final = {"[": "[", "(": "["}
_CLOSES: Final = {"[": "]", "{": "}"}
_LONGEST_NUMBER: Final = 40
"""Digits of a number. A longer one stays text: reading thousands of digits takes long, and no real number has them."""


def decode_repr(text: str) -> Json:
    """Return the value of a repr. That of `Name(field=value, ...)` is an object with these fields, and that of a member
    of an enumeration is the member's value. Raises ValueError for any other text."""
    pieces: list[str] = []
    # The closing bracket of each open array and object, in Python and in JSON.
    closing: list[tuple[str, str]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        token = _TOKEN.match(text, position)
        if token is None:
            raise ValueError(f"nothing readable at character {position}")
        pieces.append(_as_json(token, closing))
        position = token.end()
        if len(closing) > MAX_DEPTH:
            raise ValueError("nested too deeply to be read")
    return decode_json(" ".join(pieces))


def _as_json(token: re.Match[str], closing: list[tuple[str, str]]) -> str:
    kind, text = token.lastgroup, token[token.lastgroup or 0]
    written = ""  # Stays empty for a comma behind the last element: JSON has none.
    match kind:
        case "string" | "member" if text[0] in "'\"":
            written = json.dumps(_ESCAPE.sub(_unescaped, text[1:-1]), ensure_ascii=False)
        case "number" | "member":
            written = text if len(text) <= _LONGEST_NUMBER else json.dumps(text)
        case "constant":
            written = _CONSTANTS[text]
        case "field":
            written = f"{json.dumps(text)}:"
        case "object" | "opening":
            written = _OPENS.get(text, "{")
            closing.append((_CLOSES.get(text, ")"), "]" if written == "[" else "}"))
        case "closing":
            python, written = closing.pop() if closing else ("", "")
            if python != text:
                raise ValueError("brackets do not match")
        case "mark":
            written = text
    return written


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[0][1:]
    if len(code) == 1:
        return _ESCAPED.get(code, code)
    point = int(code[1:], 16)
    # Half of a surrogate pair cannot be written as UTF-8.
    return chr(point) if point < 0x110000 and not 0xD800 <= point < 0xE000 else "\ufffd"


# An object with its address, and the fields of one that has nothing in most of them.
_OBJECT: Final = re.compile(r"\s*(?:<[^\n]{1,400} at 0x[0-9a-fA-F]+>\s*$|[a-z_]+=None [a-z_]+=)")


def is_object(text: str) -> bool:
    """Return whether a text is what Python writes for an object: a generator, a part of a message. Nobody said it."""
    return _OBJECT.match(text) is not None
