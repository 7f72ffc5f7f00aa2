"""Tell whether identifiers and numbers were said before: by the user, the instructions, the tools, or their results.

An *identifier* is a text without spaces that holds a digit (`TP531`, `order-7731`). It was said if each of its parts
with a digit was, in upper or lower case, with or without separators. Three digits or more of a part are enough.

A *number* counts from 100 on: small numbers are counted by the agent, or said in words ("the two of us"). It was said
if it stands somewhere before, with or without thousands separators, decimal zeros and currency, or as its hundredfold
or hundredth (cents).

Dates and texts with spaces are not looked up: a date is said in too many ways to call one invented.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache

from otel_agenteval.model import Json

MAX_SAID = 200_000
"""Characters that are remembered. Of a longer conversation, no value is called unsaid."""
MAX_LOOKED_UP = 1_000
"""Values of one call that are looked up."""
SMALL = 100
"""The number from which on numbers are looked up."""
LONG_ENOUGH = 3
"""Digits that are enough to identify a thing."""

_TOKEN = re.compile(r"[^\W_]+(?:[-_/.#:,'][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")
_DIGITS = re.compile(r"\d+")
_GROUPED = re.compile(r"\d{1,3}(?:[,.']\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?")
_IDENTIFIER = re.compile(r"#?[^\W_][\w\-/.#:@]{2,63}", re.ASCII)
_DATE_OR_TIME = re.compile(r"\d{4}-\d{2}-\d{2}.*|\d{1,2}[:.]\d{2}(?:[:.]\d{2})?.*|\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}")


class SaidValues:
    """The words with digits that were said so far."""

    def __init__(self) -> None:
        # False once something that was said is missing: then no value can be called unsaid any more.
        self._is_complete = True
        self._room = MAX_SAID
        self._unread: list[str] = []
        self._tokens: set[str] = set()
        self._numbers: set[Decimal] = set()

    def add(self, text: str | None) -> None:
        """Add something that was said. None stands for something that was not recorded."""
        if text is None or len(text) > self._room:
            self._is_complete = False
        if text is not None:
            self._unread.append(text[: self._room])
            self._room = max(0, self._room - len(text))

    def lacks(self, value: str | int | float) -> bool:
        """Return whether it is certain that the value was not said."""
        if not self._is_complete:
            return False
        self._read()
        return not (self._has_identifier(value) if isinstance(value, str) else self._has_number(value))

    def _read(self) -> None:
        """Read the texts that were added since the last look-up. Most traces look up nothing, so reading waits for
        it."""
        for text in self._unread:
            # Most words are letters only. `isalpha` drops them quickly.
            for word in {word for word in text.split() if not word.isalpha()}:
                if _DIGITS.search(word):
                    tokens, numbers = _known_forms(word) if len(word) <= _COMMON else _forms(word)
                    self._tokens |= tokens
                    self._numbers |= numbers
        self._unread.clear()

    def _has_number(self, value: int | float) -> bool:
        number = abs(Decimal(str(value)))
        return any(variant in self._numbers for variant in (number, number * 100, number / 100)) or (
            str(value).lower() in self._tokens
        )

    def _has_identifier(self, value: str) -> bool:
        words = [word for word in _PART.findall(value.lower()) if _DIGITS.search(word)]
        return "".join(_PART.findall(value.lower())) in self._tokens or all(map(self._has_part, words))

    def _has_part(self, word: str) -> bool:
        if word in self._tokens or (word.isdecimal() and int(word) < SMALL):
            return True
        return any(run in self._tokens for run in _DIGITS.findall(word) if len(run) >= LONG_ENOUGH)


def looked_up(arguments: Json) -> Iterator[str | int | float]:
    """Yield the identifiers and numbers in the arguments, in order, of the first `MAX_LOOKED_UP` values."""
    pending, count = [arguments], 0
    while pending and count < MAX_LOOKED_UP:
        value = pending.pop()
        count += 1
        if isinstance(value, dict):
            pending.extend(reversed(value.values()))
        elif isinstance(value, list):
            pending.extend(reversed(value))
        elif isinstance(value, str):
            yield from _in_text(value.strip())
        elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= SMALL:
            yield value


def _in_text(text: str) -> Iterator[str]:
    if _IDENTIFIER.fullmatch(text) and _DIGITS.search(text) and not _DATE_OR_TIME.fullmatch(text):
        yield text


def _forms(word: str) -> tuple[frozenset[str], frozenset[Decimal]]:
    """Return every form in which the word may have been said."""
    tokens: set[str] = set()
    numbers: set[Decimal] = set()
    for token in _TOKEN.findall(word.lower()):
        if digits := _DIGITS.findall(token):
            words = _PART.findall(token)
            tokens.update(words, ("".join(words),), (run for run in digits if len(run) >= LONG_ENOUGH))
            # Without separators, the numbers are the digits. Each once: a checksum has the same few again and again.
            numbers.update(map(Decimal, set(digits)) if len(words) == 1 else _numbers(token))
    return frozenset(tokens), frozenset(numbers)


# The traces of a session repeat each other's words. Long words are rare, and would fill the cache.
_COMMON = 64
_known_forms = lru_cache(maxsize=4_096)(_forms)


def _numbers(token: str) -> Iterator[Decimal]:
    """Yield the numbers that a token may stand for. 1.234,50 and 1,234.50 are one number each, 1.234 may be two."""
    for match in _GROUPED.finditer(token):
        digits = match[0]
        for thousands, point in ((",", "."), (".", ",")):
            plain = digits.replace("'", "").replace(thousands, "").replace(point, ".")
            if plain.count(".") <= 1:
                yield Decimal(plain)
