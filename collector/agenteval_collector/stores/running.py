"""Sessions none of whose traces is complete: the store does not know them yet."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, select

from agenteval_collector.database import in_parts
from agenteval_collector.documents import rfc3339
from agenteval_collector.pipeline import Document, RunningTrace
from agenteval_collector.stores.schema import sessions

NOTHING_COMPLETE: Mapping[str, Any] = MappingProxyType(
    {"trace_ids": [], "signals": {}, "trend": None, "interactions": None}
)
"""What a whole session has beside an item of the listing."""


def by_session(running: Iterable[RunningTrace]) -> dict[str, list[RunningTrace]]:
    """The running traces of each session, by their start."""
    found: dict[str, list[RunningTrace]] = {}
    for trace in sorted(running, key=lambda trace: trace.started_at):
        found.setdefault(trace.session_id, []).append(trace)
    return found


def unknown_sessions(
    connection: Connection, tenant: str, running: Mapping[str, Sequence[RunningTrace]], agent: str | None
) -> list[str]:
    """Those of the running sessions that are not stored, the newest first; only those of `agent` where it is given."""
    ids = [each for each, traces in running.items() if agent is None or any(trace.agent == agent for trace in traces)]
    known: set[str] = set()
    for some in in_parts(ids):
        query = select(sessions.c.session_id).where(sessions.c.tenant == tenant, sessions.c.session_id.in_(some))
        known.update(connection.execute(query).scalars())
    return sorted(set(ids) - known, key=lambda each: running[each][0].started_at, reverse=True)


def running_document(
    session_id: str, traces: Sequence[RunningTrace], verdicts: list[Document], *, last_seen_at: int
) -> Document:
    """Such a session, as an item of the listing."""
    return {
        "session_id": session_id,
        "user_id": next((trace.user_id for trace in traces if trace.user_id), None),
        "agent": next((trace.agent for trace in traces if trace.agent), None),
        "services": list(dict.fromkeys(trace.service for trace in traces if trace.service)),
        "status": "running",
        "status_reason": stop_reason(traces),
        "started_at": rfc3339(traces[0].started_at),
        "last_seen_at": rfc3339(last_seen_at),
        "trace_count": 0,
        "running_traces": [trace.trace_id for trace in traces],
        "outcomes": [],
        "flagged_traces": [],
        "verdicts": verdicts,
    }


def stop_reason(traces: Iterable[RunningTrace]) -> str | None:
    """Why the first of the traces that will not go on will not; None where all may."""
    return next((f"trace {trace.trace_id}: {trace.stopped}" for trace in traces if trace.stopped), None)
