"""The walk through JSON that puts a placeholder in the place of every match.

Equal values get equal placeholders, different values get different ones. So a reader still sees that an argument is
what the user said: `{"to": "[EMAIL_1]"}`.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from otel_agenteval.model import Json
from otel_agenteval.redaction.announced_secrets import AnnouncedSecrets
from otel_agenteval.redaction.encoded import json_in, merged
from otel_agenteval.redaction.finder import Finder, OwnPatterns
from otel_agenteval.redaction.json_names import Named, fits_name, named_by, named_in
from otel_agenteval.redaction.kinds import EVERY, PERSONAL, PLACEHOLDER, SECRETS

MAX_DEPTH: Final = 64
TOO_DEEP: Final = "[nested too deep to be redacted]"
PASSES: Final = 8
"""Passes over a text, because a replacement can uncover a value beside it. Bounded, because the text may be hostile."""
MAX_CHARACTERS: Final = 4_000_000
"""Characters that are redacted in a trace, or in a call without a budget. Texts beyond them are left out."""
_SHORT: Final = 1000

_EXACT: Final = SECRETS


class RedactionBudget:
    """The characters that may still be redacted. It also bounds the time, because every pattern is linear.

    Long texts leave a tenth of it to short ones: to keys, names and ids, without which nothing else can be read.
    """

    def __init__(self, characters: int = MAX_CHARACTERS) -> None:
        self._left = characters
        self._for_short = characters // 10
        self.left_out = 0
        """The number of texts that were left out, because the budget had too few characters left for them."""

    def spend(self, characters: int) -> bool:
        """Take so many characters from the budget. False if it has less; a shorter text may still fit."""
        if characters > self._left - (self._for_short if characters > _SHORT else 0):
            self.left_out += 1
            return False
        self._left -= characters
        return True


class Redactor:
    """Replaces values by placeholders. Use one redactor for all texts that are read side by side.

    Without `personal_data`, only secrets are replaced. Placeholders number the values of each kind: `[EMAIL_1]`. With a
    `key` they are computed from it: `[EMAIL_3fa9c1d20b7e]`. Then a value has the same placeholder wherever the key is
    the same, and nobody can compute the value without the key.

    `own` are further patterns. `budget` bounds all calls together; without one, each call has `MAX_CHARACTERS`.
    """

    def __init__(
        self,
        personal_data: bool = True,
        *,
        key: bytes | None = None,
        own: OwnPatterns | None = None,
        budget: RedactionBudget | None = None,
    ) -> None:
        self._finder = Finder(EVERY if personal_data else SECRETS, own)
        self._personal_data = personal_data
        self._names: _Names = _Keyed(key) if key is not None else _Numbered()
        self._budget = budget

    def redact(self, value: Json) -> Json:
        """Return `value` with a placeholder for every match in its texts, its keys, and JSON inside its texts.

        Texts and numbers under names such as `password` or `phone` are replaced whole; objects there are searched. JSON
        inside a text is written anew if it holds a match. Placeholders in `value` stay, and no other value gets them.
        Values deeper than `MAX_DEPTH` or beyond the budget are left out, and a note stands in their place.
        """
        self._names.reserve(match[0] for text in _texts(value) for match in PLACEHOLDER.finditer(text))
        # One for each call: an announcement says nothing of the values of another call.
        self._splits = AnnouncedSecrets()
        self._left = self._budget or RedactionBudget()
        return self._value(value, depth=0)

    def _placeholder(self, kind: str, value: str) -> str:
        return self._names.name(kind, value if kind in _EXACT or kind not in EVERY else canonical(value))

    def _value(self, value: Json, *, depth: int, named: Named | None = None) -> Json:
        match value:
            case None | bool():
                return value
            case dict() | list() if depth >= MAX_DEPTH:
                return TOO_DEEP
            case dict():
                return self._object(value, depth, named)
            case list():
                names = named_in(value) if named is None else [named] * len(value)
                return [self._value(item, depth=depth + 1, named=name) for item, name in zip(value, names, strict=True)]
            case str():
                return self._text(value, depth, named)
            case _:
                text = _number(value)
                redacted = self._text(text, depth, named)
                return value if redacted == text else redacted

    def _object(self, value: Mapping[str, Json], depth: int, named: Named | None) -> Json:
        names = named_by(value, named)
        return {self._key(key): self._value(item, depth=depth + 1, named=names.get(key)) for key, item in value.items()}

    def _key(self, key: str) -> str:
        return self._plain(key) if self._left.spend(len(key)) else f"[{len(key)} characters left out]"

    def _text(self, text: str, depth: int, named: Named | None) -> str:
        if named is not None and (self._personal_data or named.kind not in PERSONAL) and fits_name(text, named):
            return self._placeholder(named.kind, text)
        decoded = _decoded(text)
        if decoded is not None:
            redacted = self._value(decoded, depth=depth + 1)
            return text if redacted == decoded else json.dumps(redacted, ensure_ascii=False)
        if not self._left.spend(len(text)):
            return f"[{len(text)} characters left out: more than may be redacted]"
        text = self._with_embedded(text, depth)
        if split := self._splits.hear(text):
            start, end = split
            text = f"{text[:start]}{self._placeholder(self._splits.kind, text[start:end])}{text[end:]}"
        return self._plain(text)

    def _with_embedded(self, text: str, depth: int) -> str:
        """Return a text in which JSON among its words is redacted as JSON, by its keys."""
        pieces, end = [], 0
        for start, stop, value in json_in(text):
            redacted = self._value(value, depth=depth + 1)
            if redacted != value:
                pieces += [text[end:start], json.dumps(redacted, ensure_ascii=False)]
                end = stop
        return "".join((*pieces, text[end:]))

    def _plain(self, text: str) -> str:
        for _ in range(PASSES):
            matches = self._finder.find(text)
            if not matches:
                break
            pieces, end = [], 0
            for match in matches:
                placeholder = self._placeholder(match.kind, text[match.start : match.end])
                pieces += [text[end : match.start], placeholder]
                end = match.end
            text = "".join((*pieces, text[end:]))
        return text


class _Numbered:
    """Numbers the values of each kind, in the order in which they come."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._reserved: set[str] = set()

    def reserve(self, placeholders: Iterator[str]) -> None:
        """Keep placeholders for the values that they stand for: they were in the text before."""
        ours = set(self._given.values())
        self._reserved.update(placeholder for placeholder in placeholders if placeholder not in ours)

    def name(self, kind: str, value: str) -> str:
        if (kind, value) not in self._given:
            self._given[kind, value] = self._next(kind)
        return self._given[kind, value]

    def _next(self, kind: str) -> str:
        while True:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            placeholder = f"[{kind}_{self._counts[kind]}]"
            if placeholder not in self._reserved:
                return placeholder


class _Keyed:
    """Makes placeholders by a keyed hash of the value."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.blake2b(key).digest()

    def reserve(self, placeholders: Iterator[str]) -> None:
        """Do nothing, because nobody without the key can write the placeholder of another value."""

    def name(self, kind: str, value: str) -> str:
        content = f"{kind}:{value}".encode(errors="replace")
        return f"[{kind}_{hashlib.blake2b(content, key=self._key, digest_size=6).hexdigest()}]"


_Names: TypeAlias = _Numbered | _Keyed


def canonical(value: str) -> str:
    """Return a form that is the same for all ways to write the same number or address."""
    return value.casefold() if "@" in value or ":" in value else re.sub(r"[ ()./+-]", "", value).casefold()


def _number(value: int | float) -> str:
    """Return an integer of at most 19 digits as text, else an empty text: no other number is personal data."""
    return str(value) if isinstance(value, int) and abs(value) < 10**19 else ""


def _decoded(text: str) -> Json:
    """Return the object or list in `text`, which is JSON as a whole; None if it is not."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text, object_pairs_hook=merged)  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return None


def _texts(value: Json) -> list[str]:
    """Return every text in `value`, keys included. Without recursion, because `value` may be deep."""
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
