"""Read what the pipeline needs to go on with traces and sessions that are stored already."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, bindparam, delete, exists, literal_column, select, tuple_

from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.sessions import Member, SessionSums, StoredPlace, StoredSession
from agenteval_collector.model.trace_view import TraceView, TurnView
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.damaged_rows import UNREADABLE
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.rows import KEY_OF_OUTCOME, effort_from, evaluation_of, session_state
from agenteval_collector.stores.schema import (
    matching,
    outcomes,
    own,
    progress,
    session_sums,
    sessions,
    trace_views,
    traces,
)
from agenteval_collector.stores.trace_json import finished_turns, says_the_same
from agenteval_collector.stores.unasked import read_unasked
from otel_agenteval.metrics.signals import SIGNAL_NAMES
from otel_agenteval.outcome import Evaluation, Status, SubjectKind

NEWEST: Final = 8
"""The newest traces of a session whose answers are read again when the session is opened again. They are as many as a
trace behind them needs, including traces without an answer."""
PROCESSES_OF: Final = 100
"""The newest traces of a session whose processes take part in it."""

# Made once: making a statement costs more than running it.
_KNOWN_TRACES: Final = select(traces.c.trace_id, traces.c.revision, traces.c.offsets).where(
    own(traces), among(traces.c.trace_id, "ids")
)
_IS_PENDING: Final = exists().where(
    own(outcomes),
    outcomes.c.subject == literal_column(f"'{SubjectKind.TRACE}'"),
    outcomes.c.subject_id == traces.c.trace_id,
    outcomes.c.status == literal_column(f"'{Status.PENDING}'"),
)
_STORED_PLACE: Final = select(
    traces.c.session_id, traces.c.started_at, traces.c.revision, traces.c.effort, _IS_PENDING.label("pending")
).where(own(traces), traces.c.trace_id == bindparam("id"))
_MEMBERS: Final = select(traces.c.trace_id, traces.c.started_at, traces.c.effort).where(own(traces))
_PLACE: Final = traces.c.started_at, traces.c.trace_id
_BACKWARDS: Final = [column.desc() for column in _PLACE]
_ALL: Final = _MEMBERS.where(traces.c.session_id == bindparam("id")).order_by(*_PLACE)
_NEWEST: Final = _MEMBERS.where(traces.c.session_id == bindparam("id")).order_by(*_BACKWARDS).limit(NEWEST)
_OF_SESSION: Final = select(*_PLACE).where(own(traces), traces.c.session_id == bindparam("id"))
_GIVEN: Final = tuple_(bindparam("started_at"), bindparam("trace_id"))
_EARLIER: Final = _OF_SESSION.where(tuple_(*_PLACE) < _GIVEN).order_by(*_BACKWARDS).limit(bindparam("most"))
_LATER: Final = _OF_SESSION.where(tuple_(*_PLACE) >= _GIVEN).order_by(*_PLACE).limit(bindparam("most"))
_SUMS_OF: Final = matching(session_sums, sessions, "session_id")
_SESSION: Final = (
    select(sessions, session_sums.c.sums, session_sums.c.risks)
    .outerjoin(session_sums, _SUMS_OF)
    .where(own(sessions), sessions.c.session_id == bindparam("id"))
)
_FORGET: Final = delete(session_sums).where(own(session_sums), among(session_sums.c.session_id, "ids"))


def read_checkpoint(connection: TenantConnection) -> int:
    """Return the saved checkpoint; 0 for a new store."""
    return connection.execute(select(progress.c.checkpoint).where(own(progress))).scalar() or 0


def read_known_traces(
    connection: TenantConnection, trace_ids: Sequence[str]
) -> Mapping[str, tuple[int, frozenset[int]]]:
    """Return the revision and the log offsets of each trace that was scored before."""
    rows = connection.execute(_KNOWN_TRACES, ids(trace_ids)).all()
    return {row.trace_id: (row.revision, _offsets_in(row.offsets)) for row in rows}


def _offsets_in(column: str) -> frozenset[int]:
    """Return the offsets of a trace. Those of a damaged row are taken for lost, as no request has the offset -1."""
    try:
        return frozenset(map(int, json.loads(column)))
    except UNREADABLE:
        return frozenset({-1})


def read_place(connection: TenantConnection, trace_id: str) -> StoredPlace | None:
    """Return the place of a trace's stored revision, with its session, revision and effort, and whether outcomes are
    pending. Return None if the trace is new."""
    row = connection.execute(_STORED_PLACE, {"id": trace_id}).first()
    if row is None:
        return None
    return StoredPlace(
        session_id=row.session_id,
        place=(row.started_at, trace_id),
        revision=row.revision,
        pending=row.pending,
        effort=effort_from(row.effort),
    )


def says_the_stored(connection: TenantConnection, view: TraceView) -> bool:
    """Return whether the stored revision of this trace has the same turns as `view`; False if the trace is new."""
    query = select(trace_views.c.view).where(own(trace_views), trace_views.c.trace_id == view.trace_id)
    stored = connection.execute(query).scalar()
    return stored is not None and says_the_same(stored, view)


def read_processes(connection: TenantConnection, session_id: str) -> frozenset[str]:
    """Return the processes that have spans in the newest traces of a session."""
    of_session = select(traces.c.processes).where(own(traces), traces.c.session_id == session_id)
    newest = connection.execute(of_session.order_by(traces.c.started_at.desc()).limit(PROCESSES_OF)).scalars().all()
    return frozenset(process for processes in newest for process in json.loads(processes))


def read_processes_of(connection: TenantConnection, trace_id: str) -> frozenset[str]:
    """Return the processes that have spans in a trace."""
    query = select(traces.c.processes).where(own(traces), traces.c.trace_id == trace_id)
    return frozenset(json.loads(connection.execute(query).scalar() or "[]"))


def read_efforts(connection: TenantConnection, limit: int) -> list[tuple[AgentKey, Effort]]:
    """Return the agents and efforts of the `limit` sessions that were over last, the oldest of them first."""
    query = select(sessions.c.session_id, sessions.c.agent, sessions.c.service, sessions.c.effort).where(
        own(sessions), sessions.c.finalized_at.is_not(None), sessions.c.agent.is_not(None)
    )
    rows = connection.execute(query.order_by(sessions.c.finalized_at.desc()).limit(limit)).all()

    def effort_of(row: Row[Any]) -> tuple[AgentKey, Effort]:
        return AgentKey(row.agent, row.service or None), effort_from(row.effort)

    return connection.readable(sessions, rows[::-1], effort_of, key=["session_id"])


def read_session_revision(connection: TenantConnection, session_id: str) -> int | None:
    """Return the revision of a session; None if it is unknown."""
    query = select(sessions.c.revision).where(own(sessions), sessions.c.session_id == session_id)
    return connection.execute(query).scalar()


def read_session(connection: TenantConnection, session_id: str) -> StoredSession | None:
    """Return all that is needed to go on with a session; None if it is new."""
    row = connection.execute(_SESSION, {"id": session_id}).first()
    if row is None:
        return None
    newest = [*reversed(connection.execute(_NEWEST, {"id": session_id}).all())]
    trace_ids = [trace.trace_id for trace in newest]
    signals = _signals(connection, outcomes.c.subject_id.in_(trace_ids), traces.c.trace_id.in_(trace_ids))
    return StoredSession(
        state=session_state(row._mapping),
        newest=_with(newest, signals, _turns(connection, trace_ids)),
        sums=None if row.sums is None else SessionSums(sums=row.sums, risks=row.risks),
    )


def read_session_traces(connection: TenantConnection, session_id: str) -> list[Member]:
    """Return all traces of a session without their answers, in the order of their starts."""
    members = connection.execute(_ALL, {"id": session_id}).all()
    signals = _signals(connection, outcomes.c.session_id == session_id, traces.c.session_id == session_id)
    return _with(members, signals, {})


def read_neighbours(
    connection: TenantConnection, session_id: str, position: tuple[int, str], earlier: int, later: int
) -> list[tuple[int, str]]:
    """Return the places (start, trace id) of the session's traces next to `position`, in order: at most `earlier` of
    those before it, and at most `later` of the others."""
    values = {"id": session_id, "started_at": position[0], "trace_id": position[1]}
    before = connection.execute(_EARLIER, {**values, "most": earlier}).all()
    behind = connection.execute(_LATER, {**values, "most": later}).all()
    return [(trace.started_at, trace.trace_id) for trace in (*reversed(before), *behind)]


def write_sums(connection: TenantConnection, commit: Commit) -> None:
    """Keep the sums of sessions after the commit. Forget them if only the traces of a session can tell."""
    sums = {key: session.sums for key, session in commit.sessions.items() if key not in commit.unsettled}
    rows = ({"session_id": key, "sums": value.sums, "risks": value.risks} for key, value in sums.items() if value)
    connection.upsert(session_sums, rows)
    forget_sums(connection, commit.unsettled | commit.emptied | {key for key, value in sums.items() if value is None})


def forget_sums(connection: TenantConnection, session_ids: Collection[str]) -> None:
    """Forget the sums of sessions that traces have left or joined."""
    if session_ids:
        connection.execute(_FORGET, ids(session_ids))


def read_traces(connection: TenantConnection, trace_ids: Sequence[str]) -> list[Member]:
    """Return traces with their answers, in the order of their starts."""
    members = connection.execute(_MEMBERS.where(traces.c.trace_id.in_(trace_ids)).order_by(*_PLACE)).all()
    signals = _signals(connection, outcomes.c.subject_id.in_(trace_ids), traces.c.trace_id.in_(trace_ids))
    return _with(members, signals, _turns(connection, trace_ids))


def _signals(
    connection: TenantConnection, where: ColumnElement[bool], of_trace: ColumnElement[bool]
) -> dict[str, dict[str, Evaluation]]:
    """Return, by trace and name, the newest outcomes that may be signals of session scores. Outcomes with rows are
    looked for by `where`, the others by `of_trace`."""
    by_subject: dict[str, dict[str, Evaluation]] = {}
    query = select(outcomes).where(
        own(outcomes), outcomes.c.subject == SubjectKind.TRACE, outcomes.c.name.in_(SIGNAL_NAMES), where
    )
    # In order of time, so that the newest outcome of a name stays.
    found = connection.execute(query.order_by(outcomes.c.evaluated_at)).mappings()
    rows = connection.readable(outcomes, found, evaluation_of, key=KEY_OF_OUTCOME)
    for evaluation in (*rows, *read_unasked(connection, [of_trace], rows, {}, SIGNAL_NAMES)):
        by_subject.setdefault(evaluation.subject_id, {})[evaluation.name] = evaluation
    return by_subject


def _with(
    members: Sequence[Row[Any]], signals: Mapping[str, dict[str, Evaluation]], turns: Mapping[str, list[TurnView]]
) -> list[Member]:
    return [
        Member(
            trace_id=member.trace_id,
            started_at=member.started_at,
            signals=signals.get(member.trace_id, {}),
            effort=effort_from(member.effort),
            turns=turns.get(member.trace_id, ()),
        )
        for member in members
    ]


def _turns(connection: TenantConnection, trace_ids: Sequence[str]) -> dict[str, list[TurnView]]:
    """Return the finished turns of these traces."""
    query = select(trace_views.c.trace_id, trace_views.c.view)
    rows = connection.execute(query.where(own(trace_views), trace_views.c.trace_id.in_(trace_ids)))
    return {row.trace_id: finished_turns(row.view) for row in rows}
