"""Write times as the API shows them."""

from datetime import UTC, datetime


def rfc3339(nanoseconds: int | None) -> str | None:
    """Write a time (ns since the Unix epoch) as RFC 3339 in UTC, with microseconds. None for None, for 0, and for a
    time beyond the calendar."""
    if not nanoseconds:
        return None
    try:
        return in_calendar(nanoseconds)
    except (OverflowError, ValueError, OSError):
        return None


def in_calendar(nanoseconds: int) -> str:
    """Write a time (ns since the Unix epoch) as `rfc3339` does, also the epoch itself. Raises OverflowError, ValueError
    or OSError for a time beyond the calendar."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
