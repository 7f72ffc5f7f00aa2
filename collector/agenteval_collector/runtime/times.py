"""Write times as the API shows them."""

from datetime import UTC, datetime


def rfc3339(nanoseconds: int | None) -> str | None:
    """Write a time (ns since the Unix epoch) as RFC 3339 in UTC, with microseconds. None for None, for 0, and for a
    time beyond the calendar."""
    if not nanoseconds:
        return None
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.replace(microsecond=rest // 1000).isoformat(timespec="microseconds").replace("+00:00", "Z")
