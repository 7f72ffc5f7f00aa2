"""Make the shape of an error: its text without the parts that differ from one time to the next.

So equal errors have equal shapes. Numbers, ids, addresses and quoted values are taken out. Words stay, whatever they
say. An id that is made of letters alone looks like a word.
"""

import re
from typing import Final

from otel_agenteval.internal.text import cut

MAX_SHAPE: Final = 200
"""Characters of a shape."""
MAX_READ: Final = 2000
"""Characters of an error that are looked at."""

VALUE: Final = "…"
"""Stands in the place of a value that was taken out."""

_LONGEST_WORD: Final = 40
"""The most characters of a word that is no value. Longer ones are tokens, digests and the like."""
_LONGEST_NAME: Final = 30
"""The most characters of a quoted text that may be the name of a field or a class."""
_WORDS_OF_MESSAGE: Final = 4
"""A quoted text with so many spaces is a message."""

_CHARACTER: Final = r"[\w@%+~-]"
_PARTS: Final = re.compile(
    rf"""
      (?P<status>  \b(?:http(?:/\d(?:\.\d)?)?|status(?:[_ ]?code)?|code)[\s:=/"'-]{{1,3}}[1-5]\d\d\b )
    | (?P<quoted>  "[^"\n]{{1,1000}}" | '[^'\n]{{1,1000}}' | `[^`\n]{{1,1000}}` )
    | (?P<word>    {_CHARACTER}+(?:[.:,]{_CHARACTER}+)* )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_HEX: Final = re.compile(r"[0-9a-f]{8,}", re.IGNORECASE)
_REPEATED: Final = re.compile(rf"{VALUE}(?:[\s,;:./|-]*(?:\band\b\s*)?{VALUE})+")


def shape_of(error: str) -> str:
    """Return the shape of an error, at most `MAX_SHAPE` characters on one line. It is empty for an empty text."""
    return cut(_without_values(" ".join(error[:MAX_READ].split())), MAX_SHAPE)


def _without_values(text: str) -> str:
    return _REPEATED.sub(VALUE, _PARTS.sub(_replacement, text))


def _replacement(part: re.Match[str]) -> str:
    text = part.group()
    match part.lastgroup:
        case "status":
            # A status stays, because 404 and 500 are different errors.
            return text
        case "quoted":
            return f"{text[0]}{_quoted(text[1:-1])}{text[-1]}"
        case _:
            return VALUE if _is_value(text) else text


def _quoted(text: str) -> str:
    """Return a quoted name of a field or a class as it is, and a quoted message without its values.

    Return `VALUE` for any other quoted text.
    """
    if text.count(" ") >= _WORDS_OF_MESSAGE:
        return _without_values(text)
    is_name = " " not in text and len(text) <= _LONGEST_NAME and not _is_value(text)
    return text if is_name else VALUE


def _is_value(word: str) -> bool:
    is_address = "@" in word[1:-1]
    return is_address or len(word) > _LONGEST_WORD or bool(_HEX.fullmatch(word)) or any(map(str.isdigit, word))
