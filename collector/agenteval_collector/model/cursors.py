"""Cursors of listings: the place where a page ended, as opaque text."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from agenteval_collector.runtime.errors import InvalidRequest

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item]):
    """One page of a listing, in its order; `next_cursor` is None on the last one."""

    items: list[Item]
    next_cursor: str | None


def encode_cursor(place: Sequence[str | int | None]) -> str:
    """Return the place as text that a URL can hold."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def decode_cursor(cursor: str) -> tuple[Any, ...]:
    """Return the place that `encode_cursor` was given. Raises InvalidRequest for any other text."""
    try:
        place = json.loads(base64.urlsafe_b64decode(cursor))
    except (ValueError, binascii.Error, RecursionError):
        place = None
    if not isinstance(place, list):
        raise foreign_cursor(cursor)
    return tuple(place)


def foreign_cursor(cursor: str) -> InvalidRequest:
    """Make the error for a cursor that leads nowhere in this listing."""
    return InvalidRequest(f"cursor {cursor[:80]!r} is none that this collector gave")
