"""Cursors of listings: the position where a page ended, as opaque text."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from agenteval_collector.runtime.errors import InvalidRequest
from otel_agenteval.internal.text import storable

Item = TypeVar("Item")
Shown = TypeVar("Shown")

MAX_INTEGER: Final = 2**63 - 1
"""The largest integer that a store can compare with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item]):
    """One page of a listing, in its order; `next_cursor` is None on the last one."""

    items: list[Item]
    next_cursor: str | None

    def map(self, of: Callable[[Item], Shown]) -> "Page[Shown]":
        """Return the page with what the function makes of each item."""
        return Page(items=[of(item) for item in self.items], next_cursor=self.next_cursor)


def encode_cursor(position: Sequence[str | int | None]) -> str:
    """Return the position as text that a URL can hold."""
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode()


def decode_cursor(cursor: str, *kinds: type) -> tuple[Any, ...]:
    """Return the position that `encode_cursor` was given. Raises InvalidRequest if the values are of other kinds,
    and for integers and texts that no store can compare with."""
    position = _decoded(cursor)
    if [type(value) for value in position] != [*kinds]:
        raise foreign_cursor(cursor)
    if any(abs(value) > MAX_INTEGER if isinstance(value, int) else value != storable(value) for value in position):
        raise foreign_cursor(cursor)
    return position


def behind(items: Sequence[Item], cursor: str | None, position_of: Callable[[Item], tuple[Any, ...]]) -> Sequence[Item]:
    """Return the items after the cursor's; all without a cursor. Raises InvalidRequest if the cursor is of none of
    them."""
    if cursor is None:
        return items
    positions, position = [position_of(item) for item in items], _decoded(cursor)
    if position not in positions:
        raise foreign_cursor(cursor)
    return items[positions.index(position) + 1 :]


def _decoded(cursor: str) -> tuple[Any, ...]:
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor))
    except (ValueError, binascii.Error, RecursionError):
        position = None
    if not isinstance(position, list):
        raise foreign_cursor(cursor)
    return tuple(position)


def foreign_cursor(cursor: str) -> InvalidRequest:
    """Make the error for a cursor that leads nowhere in this listing."""
    return InvalidRequest(f"cursor {cursor[:80]!r} is none that this collector gave")
