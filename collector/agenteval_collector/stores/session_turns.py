"""Look up what was said and done in a session, as the views of its traces have it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Select, bindparam, select, tuple_

from agenteval_collector.model.trace_view import TraceView, TurnView
from agenteval_collector.stores.access import TenantDatabase
from agenteval_collector.stores.schema import OF_TRACE, own, trace_views, traces
from agenteval_collector.stores.trace_json import view_from
from otel_agenteval.model import Turn

NEWEST: Final = 64
"""Newest traces of a session that are read; with them comes its first one."""

_IN_SESSION = (
    select(trace_views.c.view, traces.c.revised)
    .join_from(traces, trace_views, OF_TRACE)
    .where(own(traces), traces.c.session_id == bindparam("session_id"))
)
_PLACE = traces.c.started_at, traces.c.trace_id
_BEFORE = _IN_SESSION.where(tuple_(*_PLACE) < tuple_(bindparam("started_at"), bindparam("trace_id")))


class SessionTurns:
    """The turns of sessions, on the store's file. Raises Unavailable where the file refuses."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def before(self, session_id: str, started_at: int, trace_id: str) -> tuple[Turn, ...]:
        """Return the turns of a session before a trace, oldest first: of its first trace and the newest ones."""
        values = {"session_id": session_id, "started_at": started_at, "trace_id": trace_id}
        views = self._views(_BEFORE, values)
        turns = _turns(views)
        return tuple(turns[:-1] if views and views[-1].turn_goes_on else turns)

    def of_session(self, session_id: str) -> tuple[Turn, ...]:
        """Return the turns of a session: of its first trace and the newest ones."""
        return tuple(_turns(self._views(_IN_SESSION, {"session_id": session_id})))

    def _views(self, query: Select[Any], values: dict[str, Any]) -> list[TraceView]:
        newest = query.order_by(*(column.desc() for column in _PLACE)).limit(NEWEST)
        first = query.order_by(*_PLACE).limit(1)
        with self._database.reading() as connection:
            rows = [*connection.execute(newest, values), *connection.execute(first, values)]
        views = {view.trace_id: view for view in (view_from(row.view, row.revised) for row in reversed(rows))}
        return sorted(views.values(), key=lambda view: view.place)


def _turns(views: Iterable[TraceView]) -> list[Turn]:
    """List the turns of these traces, one that goes on from trace to trace as one."""
    found: list[Turn] = []
    goes_on = False
    for view in views:
        turns = [_turn(view, each) for each in view.turns]
        if goes_on and view.continues_turn and turns:
            begun, last = found.pop(), turns[0]
            said = last.input if begun.input is None else begun.input
            turns[0] = replace(last, input=said, tool_calls=(*begun.tool_calls, *last.tool_calls))
        found += turns
        goes_on = view.turn_goes_on and bool(view.turns)
    return found


def _turn(view: TraceView, turn: TurnView) -> Turn:
    return Turn(
        span_id="",
        input=turn.input,
        output=turn.output,
        error=turn.error,
        tool_calls=tuple(turn.tool_calls),
        started_at=view.started_at,
        ended_at=view.ended_at,
    )
