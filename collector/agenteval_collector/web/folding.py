"""Sessions of one trace that nobody has named, folded to one line where several come one after the other. Pure."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from agenteval_collector.api.documents import SessionItem

FEWEST: Final = 3
"""Sessions that are worth folding."""
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")


def folded(sessions: Iterable[SessionItem]) -> list[Sequence[SessionItem]]:
    """Group the sessions of a page into lines, each of one session or of several that are folded.

    Only neighbours are folded: unnamed sessions of one trace, of one agent and equally bad. A line stands where its
    first session stood, and no session moves past one that has a name.
    """
    lines: list[Sequence[SessionItem]] = []
    for is_single, neighbours in groupby(sessions, key=_is_single):
        alike: dict[object, list[SessionItem]] = {}
        for session in neighbours:
            key = (session["agent"], session["worst"], session["blind"]) if is_single else session["session_id"]
            alike.setdefault(key, []).append(session)
        for group in alike.values():
            lines += [group] if len(group) >= FEWEST else [[session] for session in group]
    return lines


def _is_single(session: SessionItem) -> bool:
    """Return whether it has one complete trace, whose id it bears as nothing names it."""
    is_unnamed = _TRACE_ID.fullmatch(session["session_id"]) is not None
    return is_unnamed and session["trace_count"] == 1 and not session["running_traces"]
