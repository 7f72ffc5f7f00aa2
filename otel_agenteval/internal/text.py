"""Preparation of texts that leave this process."""

import json
import re
from typing import Final

_UNSEEN: Final = re.compile(
    # Control characters, characters that change the direction of text, and lone surrogates.
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str, keep: str = "") -> str:
    """Return a text from outside in a form that is safe on a terminal or in a log.

    Characters that could move the cursor or begin a line are spelled out, such as `\\u001b`, except those in `keep`.
    """
    return _UNSEEN.sub(lambda match: match[0] if match[0] in keep else f"\\u{ord(match[0]):04x}", text)


def as_text(value: object) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def storable(text: str) -> str:
    """Return the text in a form that UTF-8 and every database can hold. Lone surrogates and NULs, which JSON may hold,
    become question marks."""
    if text.isascii():
        return text.replace("\0", "?")
    return text.encode(errors="replace").decode().replace("\0", "?")


def cut(text: str, limit: int) -> str:
    """Return the first `limit` characters of a text. A longer text ends in an ellipsis, which counts as one of them."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
