"""Look up the traces whose turns go on from trace to trace."""

from typing import Any, Final

from sqlalchemy import Select, bindparam, select, tuple_

from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.stores.access import TenantDatabase, Values
from agenteval_collector.stores.schema import OF_TRACE, own, trace_views, traces
from agenteval_collector.stores.trace_json import view_from

PAGE: Final = 16
"""Traces that are read at a time."""


class TurnStore:
    """`TurnStore` of the conversations, on the store's file. Raises Unavailable where the file refuses."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database
        views = select(trace_views.c.view, traces.c.revised).join_from(traces, trace_views, OF_TRACE).where(own(traces))
        in_session = views.where(traces.c.session_id == bindparam("session_id")).limit(PAGE)
        start = tuple_(traces.c.started_at, traces.c.trace_id)
        place = tuple_(bindparam("started_at"), bindparam("trace_id"))
        self._one = views.where(traces.c.trace_id == bindparam("trace_id"))
        self._going_on = in_session.where(traces.c.turn_goes_on, start < place).order_by(
            traces.c.started_at.desc(), traces.c.trace_id.desc()
        )
        self._continuing = in_session.where(traces.c.continues_turn, start > place).order_by(
            traces.c.started_at, traces.c.trace_id
        )

    def view(self, trace_id: str) -> TraceView | None:
        return next(iter(self._read(self._one, {"trace_id": trace_id})), None)

    def going_on(self, session_id: str, before: tuple[int, str]) -> list[TraceView]:
        return self._read(self._going_on, _values(session_id, before))

    def continuing(self, session_id: str, after: tuple[int, str]) -> list[TraceView]:
        return self._read(self._continuing, _values(session_id, after))

    def _read(self, query: Select[Any], values: Values) -> list[TraceView]:
        with self._database.reading() as connection:
            return [view_from(row.view, row.revised) for row in connection.execute(query, values)]


def _values(session_id: str, place: tuple[int, str]) -> Values:
    return {"session_id": session_id, "started_at": place[0], "trace_id": place[1]}
