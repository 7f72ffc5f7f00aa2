"""Texts inside a text: those behind an encoding (URL, base64, hexadecimal, escapes of JSON and HTML), and JSON among
words."""

import base64
import binascii
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple
from urllib.parse import unquote

from otel_agenteval.model import Json


def _escapes(token: str) -> str | None:
    """Undo escapes of URLs, JSON and HTML together. None if there are none."""
    if ESCAPE.search(token) is None:
        return None
    plain = _UNICODE.sub(lambda match: chr(int(match[1], 16)), token)
    plain = unquote(plain, errors="replace")
    try:
        return html.unescape(plain)
    except ValueError:  # Python reads no number of more than 4300 digits, and such a number is no character.
        return plain


def _base64(token: str) -> str | None:
    """Return the text that a token encodes in base64; None if it encodes none."""
    plain = token.translate(_STANDARD).rstrip("=")
    # Most tokens that look like base64 are none, or an image. Their beginning tells, and is faster to decode.
    if _as_text(plain[:64]) is None:
        return None
    return _as_text(plain)


def _as_text(plain: str) -> str | None:
    try:
        decoded = base64.b64decode(plain[: len(plain) - (len(plain) % 4 == 1)] + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return None
    return _printable(decoded)


def _hex(token: str) -> str | None:
    return _printable(bytes.fromhex(token)) if len(token) % 2 == 0 else None


def _printable(decoded: bytes) -> str | None:
    try:
        text = decoded.decode()
    except UnicodeDecodeError as error:
        if error.end < len(decoded) - 3:
            return None
        # The token was cut within a letter.
        text = decoded[: error.start].decode()
    return text if text.isprintable() or _SPACES.sub("", text).isprintable() else None


class _Encoding(NamedTuple):
    """A way to encode texts. `sign` matches in every text that holds a `token`, and is found faster."""

    sign: re.Pattern[str]
    token: re.Pattern[str]
    decode: Callable[[str], str | None]


_STANDARD: Final = str.maketrans("-_", "+/")
_SPACES: Final = re.compile(r"\s")
_UNICODE: Final = re.compile(r"(?<!\\)\\++u(00[2-7][0-9A-Fa-f])")
# Each alternative begins with a fixed character. One that began with a repetition would be tried at every letter.
ESCAPE: Final = re.compile(r"%[2-7][0-9A-Fa-f]|\\u00[2-7][0-9A-Fa-f]|&(?:#[0-9x][0-9A-Fa-f]*|commat|colon|equals);")
_ENCODINGS: Final = (
    # Matches begin only where a token begins, so that a long token is looked at once.
    _Encoding(ESCAPE, re.compile(r"(?<![^\s\"'<>?,=])[^\s\"'<>?,=]++"), _escapes),
    _Encoding(
        re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16}"),
        re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}+={0,2}"),
        _base64,
    ),
    _Encoding(
        re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{24}"),
        re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{24,}+(?![0-9A-Za-z])"),
        _hex,
    ),
    # A part of a path. The pattern for base64 above takes the whole path for one token.
    _Encoding(
        re.compile(r"/[A-Za-z0-9_-]{16}"), re.compile(r"(?<=/)[A-Za-z0-9_-]{16,}+={0,2}(?![A-Za-z0-9+/])"), _base64
    ),
)


LONG: Final = re.compile(r"[A-Za-z0-9+/_-]{16}")
"""What every token has but those of the first encoding. Few texts have it."""


def decodings(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the place of every token in `text` that encodes another text, and that other text. Takes linear time."""
    for encoding in _ENCODINGS if LONG.search(text) is not None else _ENCODINGS[:1]:
        if encoding.sign.search(text) is None:
            continue
        for match in encoding.token.finditer(text):
            decoded = encoding.decode(match[0])
            if decoded is not None and decoded != match[0]:
                yield *match.span(), decoded


ATTEMPTS: Final = 32
"""Places of a text at which JSON may begin and is tried: the first ones. Bounded, because the text may be hostile."""
_BEGIN: Final = re.compile(r'\{\s*"|\[\s*[\[{"]')


def merged(pairs: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    """Return an object of the pairs, with a list of all values of a repeated key: readers of JSON differ in which of
    them they take."""
    values: dict[str, list[Json]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return {key: value[0] if len(value) == 1 else value for key, value in values.items()}


def json_in(text: str) -> Iterator[tuple[int, int, Json]]:
    """Yield the place and the value of each object and list that stands as JSON inside a text, in order."""
    decoder, end = json.JSONDecoder(object_pairs_hook=merged), 0
    for _ in range(ATTEMPTS):
        begin = _BEGIN.search(text, end)
        if begin is None:
            return
        try:
            value, end = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            end = begin.start() + 1
        else:
            yield begin.start(), end, value
