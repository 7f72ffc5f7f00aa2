"""When an endpoint wants to be asked again."""

import math
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

LONGEST = 600.0
"""Seconds; an endpoint cannot silence itself for longer."""


def retry_after(headers: Mapping[str, str], now: int) -> float | None:
    """Seconds from `now` (Unix time in nanoseconds), in [0, LONGEST]; None where the endpoint does not say.

    Reads `retry-after-ms`, then `Retry-After` as seconds or as HTTP date (RFC 9110, 10.2.3). What is neither is
    as good as not said.
    """
    seconds = _number(headers.get("retry-after-ms"), 0.001)
    if seconds is None:
        seconds = _number(headers.get("retry-after"), 1.0)
    if seconds is None:
        seconds = _until(headers.get("retry-after"), now)
    return None if seconds is None else min(max(seconds, 0.0), LONGEST)


def _number(text: str | None, unit: float) -> float | None:
    try:
        value = float(text) * unit if text is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _until(text: str | None, now: int) -> float | None:
    if text is None:
        return None
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return date.timestamp() - now / 1e9
