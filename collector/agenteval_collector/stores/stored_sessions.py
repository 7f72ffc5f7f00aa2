"""Reads what the pipeline needs to go on with a session: its traces, their signals and answers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, bindparam, select, tuple_

from agenteval_collector.model.sessions import StoredSession, StoredTrace
from agenteval_collector.model.trace_view import TurnView
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.rows import effort_from, evaluation_of, session_record
from agenteval_collector.stores.schema import outcomes, own, sessions, trace_views, traces
from agenteval_collector.stores.trace_json import finished_turns
from otel_agenteval.metrics import SIGNAL_NAMES
from otel_agenteval.outcome import Evaluation, Subject

NEWEST: Final = 16
"""Newest traces of a session whose answers are read again when the session is opened again."""
BEFORE: Final = 7
AFTER: Final = 8
"""Neighbours of a trace far back: enough to compare it and those behind it, traces without an answer included."""

# Made once: making one costs more than running it.
_MEMBERS: Final = select(traces.c.trace_id, traces.c.started_at, traces.c.effort).where(own(traces))
_PLACE: Final = traces.c.started_at, traces.c.trace_id
_OF_SESSION: Final = select(*_PLACE).where(own(traces), traces.c.session_id == bindparam("id"))
_GIVEN: Final = tuple_(bindparam("started_at"), bindparam("trace_id"))
_EARLIER: Final = _OF_SESSION.where(tuple_(*_PLACE) < _GIVEN).order_by(*(each.desc() for each in _PLACE)).limit(BEFORE)
_LATER: Final = _OF_SESSION.where(tuple_(*_PLACE) >= _GIVEN).order_by(*_PLACE).limit(AFTER)
_SESSION: Final = select(sessions).where(own(sessions), sessions.c.session_id == bindparam("id"))


def read_session(connection: TenantConnection, session_id: str) -> StoredSession | None:
    """Return all that is needed to go on with a session; None where it is new."""
    row = connection.execute(_SESSION, {"id": session_id}).first()
    if row is None:
        return None
    members = connection.execute(_MEMBERS.where(traces.c.session_id == session_id).order_by(*_PLACE)).all()
    signals = _signals(connection, outcomes.c.session_id == session_id)
    turns = _turns(connection, [member.trace_id for member in members[-NEWEST:]])
    return StoredSession(record=session_record(row._mapping), traces=_with(members, signals, turns))


def read_neighbours(connection: TenantConnection, session_id: str, place: tuple[int, str]) -> list[tuple[int, str]]:
    """Return the places of the traces of a session next to `place` (start, trace id), in order."""
    values = {"id": session_id, "started_at": place[0], "trace_id": place[1]}
    earlier, later = connection.execute(_EARLIER, values).all(), connection.execute(_LATER, values).all()
    return [(each.started_at, each.trace_id) for each in (*reversed(earlier), *later)]


def read_traces(connection: TenantConnection, trace_ids: Sequence[str]) -> list[StoredTrace]:
    """Return traces with their answers, by start."""
    members = connection.execute(_MEMBERS.where(traces.c.trace_id.in_(trace_ids)).order_by(*_PLACE)).all()
    return _with(members, _signals(connection, outcomes.c.subject_id.in_(trace_ids)), _turns(connection, trace_ids))


def _signals(connection: TenantConnection, where: ColumnElement[bool]) -> dict[str, dict[str, Evaluation]]:
    """Return the outcomes that may be signals of session scores, by trace and name: of each the newest."""
    found: dict[str, dict[str, Evaluation]] = {}
    query = select(outcomes).where(
        own(outcomes), outcomes.c.subject == Subject.TRACE, outcomes.c.name.in_(SIGNAL_NAMES), where
    )
    for row in connection.execute(query.order_by(outcomes.c.evaluated_at)).mappings().all():
        each = evaluation_of(row)
        found.setdefault(each.subject_id, {})[each.name] = each
    return found


def _with(
    members: Sequence[Row[Any]], signals: Mapping[str, dict[str, Evaluation]], turns: Mapping[str, list[TurnView]]
) -> list[StoredTrace]:
    return [
        StoredTrace(
            trace_id=member.trace_id,
            started_at=member.started_at,
            signals=signals.get(member.trace_id, {}),
            effort=effort_from(member.effort),
            turns=turns.get(member.trace_id),
        )
        for member in members
    ]


def _turns(connection: TenantConnection, trace_ids: Sequence[str]) -> dict[str, list[TurnView]]:
    """Return the turns of the traces that are finished."""
    query = select(trace_views.c.trace_id, trace_views.c.view)
    rows = connection.execute(query.where(own(trace_views), trace_views.c.trace_id.in_(trace_ids)))
    return {row.trace_id: finished_turns(row.view) for row in rows}
