"""Text on its way out of this process."""

import re
from typing import Final

_UNSEEN: Final = re.compile(
    # All control characters; what reverses the direction of text; lone surrogates.
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str, keep: str = "") -> str:
    """Return text of somebody else for a terminal or a log: what moves the cursor or begins a line is spelled out, such
    as `\\u001b`, but for the characters in `keep`."""
    return _UNSEEN.sub(lambda match: match[0] if match[0] in keep else f"\\u{ord(match[0]):04x}", text)


def storable(text: str) -> str:
    """Return the text as UTF-8 and every database can hold it: half a surrogate pair and a NUL, which JSON may hold,
    become question marks."""
    return text.encode(errors="replace").decode().replace("\0", "?")


def cut(text: str, limit: int) -> str:
    """Return the text in at most `limit` characters. An ellipsis ends one that was longer."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
