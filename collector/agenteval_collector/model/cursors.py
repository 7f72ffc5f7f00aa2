"""Cursors of listings: where a page ended, as text that nobody needs to read."""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any

from agenteval_collector.runtime.errors import InvalidRequest


def encode_cursor(place: Sequence[str | int | None]) -> str:
    """The place as text that a URL can hold."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def decode_cursor(cursor: str) -> tuple[Any, ...]:
    """The place that `encode_cursor` was given, if it was. Raises InvalidRequest."""
    try:
        place = json.loads(base64.urlsafe_b64decode(cursor))
    except (ValueError, binascii.Error, RecursionError):
        place = None
    if not isinstance(place, list):
        raise foreign_cursor(cursor)
    return tuple(place)


def foreign_cursor(cursor: str) -> InvalidRequest:
    """It leads nowhere in this listing."""
    return InvalidRequest(f"cursor {cursor[:80]!r} is none that this collector gave")
