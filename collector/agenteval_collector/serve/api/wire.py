"""Encode documents and read parameters, by the same rules over HTTP and gRPC."""

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote

from agenteval_collector.runtime.errors import InvalidRequest, NotFound
from otel_agenteval.internal.text import storable

Document = TypeVar("Document")
Choice = TypeVar("Choice", bound=StrEnum)

DEFAULT_LIMIT = 50
MAX_LIMIT = 500
MAX_ID_LENGTH = 1024
MAX_TEXT = 1024
"""The most characters of a parameter of a listing."""
LATEST = 2**63 - 1
"""The last time, in nanoseconds, that the store's integers can hold."""
PROBLEM_DIGITS = 16
"""Hexadecimal digits of a problem's id."""
TOKEN_HEADER = "X-Agenteval-Token"
TOKEN_PATH = "/api/v1/token"
"""The path at which a program gets the token that it sends in that header."""
Parameters: TypeAlias = Mapping[str, str]
"""The parameters of a request by name, those in its path included; an empty text stands for none."""
_HEX = re.compile(r"[0-9a-fA-F]+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def encode(document: object) -> bytes:
    """Return `document` as JSON in ASCII.

    ASCII, because recorded content may hold lone surrogates, which UTF-8 cannot encode, and C1 control characters,
    which terminals obey. NaN and infinities, which JSON does not have, become their names. A part of the document may
    be a function that makes it: large parts are then in memory one after the other.
    """
    try:
        text = json.dumps(document, allow_nan=False, separators=(",", ":"), default=_made)
    except ValueError:
        text = json.dumps(_finite(document), allow_nan=False, separators=(",", ":"), default=_made)
    return text.encode("ascii")


def _made(part: Any) -> Any:
    return part()


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


def trace_id_of(text: str) -> str:
    """Return the trace id in `text`, in lower case. Raises InvalidRequest for anything but 32 hex digits."""
    return hex_id("trace_id", text, 32)


def hex_id(field: str, text: str, digits: int) -> str:
    """Return the id in `text`, in lower case. Raises InvalidRequest that names `field` for anything else."""
    if len(text) != digits or not _HEX.fullmatch(text):
        raise InvalidRequest(f"{field} is {text[:64]!r}, not {digits} hexadecimal digits")
    return text.lower()


def time_of(field: str, text: str) -> int:
    """Return a time in RFC 3339 as nanoseconds since the Unix epoch. Raises InvalidRequest that names `field` for
    anything else, and for what the store cannot hold."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.min
    if moment.tzinfo is None or moment.year < 1970:
        raise InvalidRequest(f"{field} is {text[:64]!r}, not a time as 2026-03-02T09:00:00Z")
    time = (moment - _EPOCH) // timedelta(microseconds=1) * 1000
    if time > LATEST:
        raise InvalidRequest(f"{field} is {text[:64]!r}, after the year 2262")
    return time


def choice(name: str, text: str, choices: type[Choice]) -> Choice:
    """Return the member of `choices` that the text names. Raises InvalidRequest that names the parameter for anything
    else."""
    if text not in tuple(choices):
        raise InvalidRequest(f"{name} is {text[:64]!r}, not one of {', '.join(choices)}")
    return choices(text)


def id_of(field: str, text: str) -> str:
    """Return an id or a name as stores hold it. Raises InvalidRequest naming `field` if it is empty or longer than
    `MAX_ID_LENGTH`."""
    if not text:
        raise InvalidRequest(f"{field} is empty")
    if len(text) > MAX_ID_LENGTH:
        raise InvalidRequest(f"{field} has {len(text)} characters, more than {MAX_ID_LENGTH}")
    return storable(text)


def optional_id(field: str, text: str | None) -> str | None:
    """Return an id or a name like `id_of`; None if there is none."""
    return id_of(field, text) if text else None


def texts_of(values: Parameters, *names: str) -> dict[str, str | None]:
    """Return parameters of a listing by name; None for one that is absent or empty.

    Raises InvalidRequest, which names a parameter that is longer than `MAX_TEXT` or that no store can hold.
    """
    texts = {name: values.get(name) or None for name in names}
    for name, text in texts.items():
        if text and len(text) > MAX_TEXT:
            raise InvalidRequest(f"{name} has {len(text)} characters, more than {MAX_TEXT}")
        if text and storable(text) != text:
            raise InvalidRequest(f"{name} has characters that cannot be stored")
    return texts


def limit_of(text: str | None) -> int:
    """Return the page size in `text`; the default for None. Raises InvalidRequest outside 1 to 500."""
    if text is None:
        return DEFAULT_LIMIT
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InvalidRequest(f"limit is {text[:64]!r}, not a number from 1 to {MAX_LIMIT}")
    limit = int(text)
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidRequest(f"limit is {limit}, not a number from 1 to {MAX_LIMIT}")
    return limit


def trace_ids_of(text: str) -> frozenset[str]:
    """Return the trace ids in `text`, separated by commas. Raises InvalidRequest for more than `MAX_LIMIT`."""
    return frozenset(map(trace_id_of, _listed("trace", text)))


def session_ids_of(text: str) -> frozenset[str]:
    """Return the session ids in `text`, separated by commas. Each is percent-encoded, as it may hold a comma itself.

    Raises InvalidRequest for more than `MAX_LIMIT`.
    """
    return frozenset(map(unquote, _listed("session", text)))


def _listed(what: str, text: str) -> list[str]:
    ids = text.split(",") if text else []
    if len(ids) > MAX_LIMIT:
        raise InvalidRequest(f"{len(ids)} {what} ids are given, more than {MAX_LIMIT}")
    return ids


def found(document: Document | None, what: str) -> Document:
    """Return the document. Raises NotFound naming `what` if it is None."""
    if document is None:
        raise NotFound(f"{what} is not known to this collector")
    return document
