"""Find traces that run or died in the middle. A session without a complete trace is not stored yet."""

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, select

from agenteval_collector.model.documents import Document
from agenteval_collector.model.rendering import rfc3339, trace_document
from agenteval_collector.model.running import RunningTrace
from agenteval_collector.runtime.database import in_parts
from agenteval_collector.stores.schema import findings, sessions, traces
from otel_agenteval.model import Trace

NEWEST = 100
"""Traces of a session by which it is told who takes part in it."""

NOT_TOLD_AGAIN = "no process has told of it since this collector was started, and none of its spans has arrived"
"""Used for a trace that is known by its findings alone."""

NOTHING_COMPLETE: Mapping[str, Any] = MappingProxyType(
    {"trace_ids": [], "turn_traces": [], "signals": {}, "trend": None, "interactions": None}
)
"""The fields of a session's document that an item of the listing lacks."""


def by_session(running: Iterable[RunningTrace]) -> dict[str, list[RunningTrace]]:
    """The running traces of each session, by their start."""
    found: dict[str, list[RunningTrace]] = {}
    for trace in sorted(running, key=lambda trace: trace.started_at):
        found.setdefault(trace.session_id, []).append(trace)
    return found


def unknown_sessions(connection: Connection, tenant: str, running: Mapping[str, Sequence[RunningTrace]]) -> list[str]:
    """Those of the running sessions that are not stored, the newest first."""
    ids = list(running)
    known: set[str] = set()
    for some in in_parts(ids):
        query = select(sessions.c.session_id).where(sessions.c.tenant == tenant, sessions.c.session_id.in_(some))
        known.update(connection.execute(query).scalars())
    return sorted(set(ids) - known, key=lambda each: running[each][0].started_at, reverse=True)


def running_document(
    session_id: str, running: Sequence[RunningTrace], found: Document, *, last_seen_at: int
) -> Document:
    """Such a session, as an item of the listing; `found` are the fields that say what was found in it."""
    return {
        "session_id": session_id,
        "user_id": next((trace.user_id for trace in running if trace.user_id), None),
        "agent": next((trace.agent for trace in running if trace.agent), None),
        "services": list(dict.fromkeys(trace.service for trace in running if trace.service)),
        "versions": [],
        "status": "running",
        "status_reason": stop_reason(running),
        "started_at": rfc3339(running[0].started_at),
        "last_seen_at": rfc3339(last_seen_at),
        "trace_count": 0,
        "running_traces": [trace.trace_id for trace in running],
        "outcomes": [],
        "flagged_traces": [],
        "judged_failures": 0,
        "blind": False,
        **found,
    }


def stop_reason(running: Iterable[RunningTrace]) -> str | None:
    """Why the first of the traces that will not go on will not; None where all may."""
    return next((f"trace {trace.trace_id}: {trace.stopped}" for trace in running if trace.stopped), None)


def read_deaths(
    connection: Connection, tenant: str, session_ids: Sequence[str], running: Iterable[RunningTrace]
) -> dict[str, str]:
    """The reason for the end of the newest trace in which an agent died, by session; without those where none died, and
    without traces that go on: their processes were heard of again."""
    going_on = {trace.trace_id for trace in running if trace.stopped is None}
    query = (
        select(traces.c.session_id, traces.c.trace_id, traces.c.died)
        .where(traces.c.tenant == tenant, traces.c.session_id.in_(session_ids), traces.c.died.is_not(None))
        .order_by(traces.c.started_at, traces.c.trace_id)
    )
    rows = [row for row in connection.execute(query) if row.trace_id not in going_on]
    return {row.session_id: f"trace {row.trace_id}: {row.died}" for row in rows}


def read_told(connection: Connection, tenant: str, trace_id: str) -> Document | None:
    """A trace of which nothing is known but the findings that its process told ahead of it; None without any."""
    query = select(findings).where(findings.c.tenant == tenant, findings.c.trace_id == trace_id)
    first = connection.execute(query.order_by(findings.c.found_at).limit(1)).first()
    if first is None:
        return None
    told = Trace(
        trace_id=trace_id,
        session_id=first.session_id,
        service=first.service,
        agents=() if first.agent is None else (first.agent,),
        started_at=first.found_at,
        ended_at=first.found_at,
    )
    return {**trace_document(told, revision=0, complete=False), "status_reason": NOT_TOLD_AGAIN}


def read_processes(connection: Connection, tenant: str, session_id: str) -> frozenset[str]:
    """The processes that take part in the session, by its newest traces."""
    newest = (
        select(traces.c.processes)
        .where(traces.c.tenant == tenant, traces.c.session_id == session_id)
        .order_by(traces.c.started_at.desc())
        .limit(NEWEST)
    )
    return frozenset(process for names in connection.execute(newest).scalars() for process in json.loads(names))
