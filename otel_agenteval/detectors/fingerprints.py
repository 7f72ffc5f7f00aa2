"""Fingerprints of arguments, results, replies and errors: they are equal where the content says the same.

Content may be hostile. Nothing here raises, and content that cannot be read is compared as text.
"""

import json
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from typing import Final

from otel_agenteval.model import Json

MAX_NAME: Final = 200
"""Characters of the name of a tool, a model or an agent that are kept."""

MAX_DECODED: Final = 64 * 1024
"""Characters of JSON that are decoded. Longer texts are the same only if they are equal letter by letter."""

MAX_KEPT: Final = 2048
"""Characters of content that are kept, to be read once something is compared with it. Longer content is read at
once."""

MIN_WORDS: Final = 3
MIN_SPEECH: Final = 24
"""Words, or else bytes of UTF-8, that a reply must have to be speech. Some scripts have no spaces between words."""

MAX_ERROR: Final = 2000
"""Characters of an error that are compared. What follows is mostly a stack trace."""

Fingerprint = str | bytes

_BEGINS_JSON: Final = tuple('{["-0123456789tfnNI')
_WORD: Final = re.compile(r"\w+")
_DIGIT: Final = re.compile(r"\d")


def printable(name: str) -> str:
    """Return a name from outside in a form that may stand in a sentence: short, and without control characters."""
    return "".join(character if character.isprintable() else "?" for character in name[:MAX_NAME])


def fingerprint(content: Json) -> Fingerprint | None:
    """Return a value that is equal for the same content; for long content, a hash. None where nothing was recorded.

    JSON is the same in any notation, and 1.0 is 1. Other text, and JSON with a number of more digits than a float
    holds, is compared letter by letter, without white space around it.
    """
    if content is None:
        return None
    try:
        canonical = _canonical(content if isinstance(content, str) else json.dumps(content))
    except RecursionError:
        # Decoded content that is nested too deeply to be written counts as not recorded.
        return None
    if len(canonical) <= MAX_KEPT:
        return canonical
    return blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Compared:
    """Recorded content, which equals the same content in another notation.

    It is read only when it is compared with content that is written in another way. Most comparisons end before that,
    because the calls are of different tools.
    """

    __slots__ = ("_read", "_same", "_written", "letters")

    def __init__(self, content: Json, read: Callable[[Json], Json] | None = None) -> None:
        """Keep `content`. `read` extracts the part that is compared; None compares all of it."""
        self._written: str | None = None
        self._read = read
        if isinstance(content, str) and len(content) <= MAX_KEPT:
            self._written = content
        else:
            self._same = fingerprint(read(content) if read else content)
        self.letters = hash(content if isinstance(content, str) else self._same)
        """A hash that is equal for content that is equal letter by letter. Far faster than a fingerprint."""

    @property
    def fingerprint(self) -> Fingerprint | None:
        """The fingerprint of the part that is compared. None where that is nothing."""
        if self._written is not None:
            self._same = fingerprint(self._read(self._written) if self._read else self._written)
            self._written = None
        return self._same

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Compared):
            return NotImplemented
        if self._written is not None and self._written == other._written and self._read is other._read:
            return True
        # A step is compared many times, so both are mostly read already, and a call of `fingerprint` is saved.
        mine = self._same if self._written is None else self.fingerprint
        return mine == (other._same if other._written is None else other.fingerprint)

    def __hash__(self) -> int:
        return hash(self.fingerprint)


def error_fingerprint(error: str | None) -> Fingerprint | None:
    """Return a value that is equal for the same error, whatever numbers and ids are in it. None for no error."""
    if error is None:
        return None
    return fingerprint(_WORD.sub(lambda word: "#" if _DIGIT.search(word[0]) else word[0], error[:MAX_ERROR]))


def is_speech(reply: Json) -> bool:
    """Return whether a reply is speech. Labels and JSON are not: they may rightly answer many questions."""
    if not isinstance(reply, str):
        return False
    text = reply.strip()
    if not text or text[0] in "{[":
        return False
    return len(text.split(None, MIN_WORDS)) >= MIN_WORDS or len(text.encode("utf-8", "surrogatepass")) >= MIN_SPEECH


def _canonical(text: str) -> str:
    if len(text) > MAX_DECODED or text.lstrip()[:1] not in _BEGINS_JSON:
        return text.strip()
    try:
        value = _decoded(text)
        # A model's arguments are JSON text. Some instrumentations encode that text as a JSON string once more.
        return _encoded(_decoded(value) if isinstance(value, str) else value)
    except (ValueError, RecursionError):
        return text.strip()


def _number(text: str) -> int | float:
    number = float(text)
    try:
        # Most numbers are written as Python writes them, which is the fast test.
        is_exact = repr(number) == text or Decimal(repr(number)) == Decimal(text)
    except InvalidOperation:
        is_exact = False
    if not is_exact:
        raise ValueError("a number that loses digits is compared as it is written")
    return int(number) if number.is_integer() else number


# Made once, because `json.loads` and `json.dumps` with options make a new one for each text.
_decoded: Final = json.JSONDecoder(parse_float=_number).decode
_encoded: Final = json.JSONEncoder(sort_keys=True).encode
