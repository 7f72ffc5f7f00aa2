"""Fingerprints of replies and errors: they are equal if the content says the same.

Content may be hostile. Nothing here raises, and content that cannot be read is compared as text.
"""

import json
import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from otel_agenteval.model import Json

MAX_NAME: Final = 200
"""Characters of the name of a tool, a model or an agent that are kept."""

MAX_DECODED: Final = 64 * 1024
"""Characters of JSON that are decoded."""

MAX_KEPT: Final = 2048
"""Characters of content that are kept, to be read once something is compared with it. Longer content is read at
once."""

MIN_WORDS: Final = 3
MIN_SPEECH: Final = 24
"""Words, or else bytes of UTF-8, that a reply must have to be speech. Some scripts have no spaces between words."""

MAX_ERROR: Final = 2000
"""Characters of an error that are compared. What follows is mostly a stack trace."""

Fingerprint = str | bytes

_MAY_BE_JSON: Final = ("{", "[", '"', "0", "f", "n", "t")
_WORD: Final = re.compile(r"\w+")
_DIGIT: Final = re.compile(r"\d")


def printable(name: str) -> str:
    """Return a name from outside in a form that may stand in a sentence: short, and without control characters."""
    return "".join(character if character.isprintable() else "?" for character in name[:MAX_NAME])


def fingerprint(content: Json) -> Fingerprint | None:
    """Return a value that is equal for the same content; for long content, a hash. None if nothing was recorded.

    Text is compared letter by letter, without white space around it.
    """
    if content is None:
        return None
    try:
        text = content.strip() if isinstance(content, str) else json.dumps(content, sort_keys=True)
    except RecursionError:
        # Decoded content that is nested too deeply to be written counts as not recorded.
        return None
    if len(text) <= MAX_KEPT:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Compared:
    """A recorded reply, which equals the same reply in another structure.

    It is read only when it is compared with one that is written in another way.
    """

    __slots__ = ("_read", "_same", "_written")

    def __init__(self, content: Json, read: Callable[[Json], Json] | None = None) -> None:
        """Keep `content`. `read` extracts the part that is compared; None compares all of it."""
        self._written: str | None = None
        self._read = read
        if isinstance(content, str) and len(content) <= MAX_KEPT:
            self._written = content
        else:
            self._same = fingerprint(read(content) if read else content)

    @property
    def fingerprint(self) -> Fingerprint | None:
        """The fingerprint of the part that is compared. None if that is nothing."""
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


def decoded_json(value: Json) -> Json:
    """Return the value of JSON text of at most `MAX_DECODED` characters. Other text stays as it is."""
    # Twice, because some instrumentations encode JSON text as a JSON string once more.
    for _ in range(2):
        if not isinstance(value, str) or len(value) > MAX_DECODED:
            break
        text = value.strip()
        if not text.startswith(_MAY_BE_JSON):
            break
        try:
            decoded, end = _raw_decoded(text)
        except (ValueError, RecursionError):
            break
        if end < len(text):
            break
        value = decoded
    return value


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


# Faster than `json.loads`, which searches for white space at both ends.
_raw_decoded: Final = json.JSONDecoder().raw_decode
