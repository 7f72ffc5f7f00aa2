"""Python's `repr` of an API's object, where an instrumentation wrote that in place of JSON."""

import math
import re

from otel_agenteval.conventions.decoding import MAX_DEPTH
from otel_agenteval.model import Json

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<number>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"""
    r"""|(?P<name>[^\W\d][\w.]*)|(?P<mark>[\[\](){},:=]))""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_CONSTANTS: dict[str, Json] = {"None": None, "True": True, "False": False}
_CLOSING = {"[": "]", "(": ")", "{": "}"}


def decode_repr(text: str) -> Json:
    """Return the value of a repr, of `Name(field=value, ...)` its fields. Raises ValueError for something else."""
    reader = _Reader(text)
    value = reader.value(MAX_DEPTH)
    if text[reader.position :].strip():
        raise ValueError("text goes on after the value")
    return value


class _Reader:
    """Reads one value after the other from `position` on; `depth` is how many levels may still open."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.position = 0

    def value(self, depth: int) -> Json:
        kind, token = self._next()
        if kind == "string":
            return _ESCAPE.sub(_unescaped, token[1:-1])
        if kind == "number":
            return _number(token)
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        if kind == "name" and self._takes("("):
            return self._fields(depth - 1, "=", ")")
        if token == "{":
            return self._fields(depth - 1, ":", "}")
        if token in ("[", "("):
            return self._items(depth - 1, _CLOSING[token])
        raise ValueError(f"no value begins with {token!r}")

    def _items(self, depth: int, end: str) -> list[Json]:
        items: list[Json] = []
        while not self._ends(depth, end):
            items.append(self.value(depth))
            self._separated(end)
        return items

    def _fields(self, depth: int, sign: str, end: str) -> dict[str, Json]:
        fields: dict[str, Json] = {}
        while not self._ends(depth, end):
            name = self.value(depth) if sign == ":" else self._next()[1]
            if not isinstance(name, str) or not self._takes(sign):
                raise ValueError(f"a name and {sign!r} were expected")
            fields[name] = self.value(depth)
            self._separated(end)
        return fields

    def _ends(self, depth: int, end: str) -> bool:
        if depth < 0:
            raise ValueError("nested too deeply to be read")
        return self._takes(end)

    def _separated(self, end: str) -> None:
        before = self.position
        if self._takes(end):
            self.position = before
        elif not self._takes(","):
            raise ValueError(f"',' or {end!r} was expected")

    def _takes(self, mark: str) -> bool:
        match = _TOKEN.match(self._text, self.position)
        if match is None or match["mark"] != mark:
            return False
        self.position = match.end()
        return True

    def _next(self) -> tuple[str, str]:
        match = _TOKEN.match(self._text, self.position)
        if match is None or match.lastgroup is None:
            raise ValueError(f"nothing readable at character {self.position}")
        self.position = match.end()
        return match.lastgroup, match[match.lastgroup]


def _number(token: str) -> Json:
    # A number of thousands of digits takes its time; none that anybody meant has so many.
    if len(token) > 40:
        return token
    if token.lstrip("-").isdigit():
        return int(token)
    number = float(token)
    return number if math.isfinite(number) else token


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[0][1:]
    if len(code) == 1:
        return _ESCAPED.get(code, code)
    point = int(code[1:], 16)
    # Half of a surrogate pair cannot be written as UTF-8.
    return chr(point) if point < 0x110000 and not 0xD800 <= point < 0xE000 else "\ufffd"
