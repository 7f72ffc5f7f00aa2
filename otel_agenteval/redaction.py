"""Replacement of secrets and common personal data by numbered placeholders, before content goes anywhere else.

Equal values get equal placeholders, so that a reader still sees that an argument is what the user said:
`{"to": "[EMAIL_1]"}`. `sensitive` says what is found.
"""

import json
import re
from typing import Final

from otel_agenteval.model import Json
from otel_agenteval.sensitive import PERSONAL, PLACEHOLDER, Kind, Match, find

__all__ = ["PERSONAL", "Kind", "Match", "Redactor", "canonical", "find"]

MAX_DEPTH: Final = 64
TOO_DEEP: Final = "[nested too deep to be redacted]"
PASSES: Final = 8
"""Passes over a text, since a replacement can uncover a value beside it; bounded, as the text may be hostile."""

_SECRET_NAMES: Final = re.compile(
    r"(?:.*_)?(?:password|passwd|pwd|passphrase|passcode|secret|token|credentials?|cookie|authorization|cvv|cvc"
    r"|(?:api|access|secret|private|account|signing|encryption)_?key)"
)
_PHONE_NAMES: Final = re.compile(r"(?:.*_)?(?:phone|telephone|mobile|fax|phone_?number|mobile_?number)")
_EXACT: Final = (Kind.SECRET, Kind.JWT, Kind.API_KEY, Kind.PRIVATE_KEY)


class Redactor:
    """Numbers the values it meets, each kind by itself. Use one for everything that is read side by side."""

    def __init__(self) -> None:
        self._placeholders: dict[tuple[Kind, str], str] = {}
        self._counts = dict.fromkeys(Kind, 0)
        self._foreign: set[str] = set()

    def redact(self, value: Json) -> Json:
        """Return `value` with a placeholder for every match in its texts, in keys and in JSON inside texts too.

        Texts and numbers under names such as `password` or `phone` are replaced whole; an object there is looked
        through. JSON inside a text that holds a match is written anew. Placeholders in `value` stay, and are given to
        no other value. What lies deeper than `MAX_DEPTH` is left out, and says so.
        """
        ours = set(self._placeholders.values())
        for text in _texts(value):
            self._foreign.update(match[0] for match in PLACEHOLDER.finditer(text) if match[0] not in ours)
        return self._value(value, depth=0)

    def _value(self, value: Json, *, depth: int, named: Kind | None = None) -> Json:
        match value:
            case None | bool():
                return value
            case dict() | list() if depth >= MAX_DEPTH:
                return TOO_DEEP
            case dict():
                return {
                    self._plain(key): self._value(item, depth=depth + 1, named=_kind_of(key))
                    for key, item in value.items()
                }
            case list():
                return [self._value(item, depth=depth + 1, named=named) for item in value]
            case str():
                return self._text(value, depth, named)
            case _:
                text = _number(value)
                redacted = self._text(text, depth, named)
                return value if redacted == text else redacted

    def _text(self, text: str, depth: int, named: Kind | None) -> str:
        if named is not None and _is_value(text, named):
            return self._placeholder(named, text)
        decoded = _decoded(text)
        if decoded is not None:
            redacted = self._value(decoded, depth=depth + 1)
            return text if redacted == decoded else json.dumps(redacted, ensure_ascii=False)
        return self._plain(text)

    def _plain(self, text: str) -> str:
        for _ in range(PASSES):
            matches = find(text)
            if not matches:
                break
            parts, end = [], 0
            for match in matches:
                placeholder = self._placeholder(match.kind, text[match.start : match.end])
                parts += [text[end : match.start], placeholder]
                end = match.end
            text = "".join((*parts, text[end:]))
        return text

    def _placeholder(self, kind: Kind, value: str) -> str:
        identity = (kind, value if kind in _EXACT else canonical(value))
        if identity not in self._placeholders:
            self._placeholders[identity] = self._next(kind)
        return self._placeholders[identity]

    def _next(self, kind: Kind) -> str:
        while True:
            self._counts[kind] += 1
            placeholder = f"[{kind}_{self._counts[kind]}]"
            if placeholder not in self._foreign:
                return placeholder


def _kind_of(key: str) -> Kind | None:
    """Return the kind of every value under this key, whether it is written `apiKey`, `api-key` or `API_KEY`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key[:100]).lower().replace("-", "_").replace(" ", "_")
    if _SECRET_NAMES.fullmatch(name):
        return Kind.SECRET
    return Kind.PHONE if _PHONE_NAMES.fullmatch(name) else None


def _is_value(text: str, named: Kind) -> bool:
    if not text.strip() or PLACEHOLDER.fullmatch(text):
        return False
    return named is Kind.SECRET or sum(map(str.isdecimal, PLACEHOLDER.sub("", text))) >= 7


def canonical(value: str) -> str:
    """Return a form that is the same for all ways to write a number or an address."""
    return value.casefold() if "@" in value or ":" in value else re.sub(r"[ ()./+-]", "", value).casefold()


def _number(value: int | float) -> str:
    """Return a number as text. Empty unless it could be a value of interest: an integer of at most 19 digits."""
    return str(value) if isinstance(value, int) and abs(value) < 10**19 else ""


def _decoded(text: str) -> Json:
    """Return the object or list that the JSON in `text` is. None where it is none. What stands under a repeated key is
    a list here: readers of JSON differ in which one they take."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text, object_pairs_hook=_object)  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return None


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    values: dict[str, list[Json]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return {key: each[0] if len(each) == 1 else each for key, each in values.items()}


def _texts(value: Json) -> list[str]:
    """Return every text in `value`, keys included; without recursion, as it may be deep."""
    texts: list[str] = []
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict):
            texts += item
            rest += item.values()
        elif isinstance(item, list):
            rest += item
    return texts
