"""Look up what was said and done in a session, in the views of its traces."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Select, bindparam, select, tuple_

from agenteval_collector.model.trace_view import TraceView, TurnView
from agenteval_collector.stores.access import TenantDatabase, Values
from agenteval_collector.stores.schema import OF_TRACE, own, trace_views, traces
from agenteval_collector.stores.trace_json import view_from
from otel_agenteval.model import Trace, Turn

NEWEST: Final = 64
"""The newest traces of a session that are read. Its first trace is read with them."""
PAGE: Final = 16
"""Traces of a running turn that are read at a time."""

# Made once: making a statement costs more than running it.
_VIEWS = select(trace_views.c.view, traces.c.revised).join_from(traces, trace_views, OF_TRACE).where(own(traces))
_ONE = _VIEWS.where(traces.c.trace_id == bindparam("trace_id"))
_IN_SESSION = _VIEWS.where(traces.c.session_id == bindparam("session_id"))
_START = tuple_(traces.c.started_at, traces.c.trace_id)
_PLACE = tuple_(bindparam("started_at"), bindparam("trace_id"))
_OLDEST_FIRST = traces.c.started_at, traces.c.trace_id
_NEWEST_FIRST = traces.c.started_at.desc(), traces.c.trace_id.desc()
_BEFORE = _IN_SESSION.where(_START < _PLACE)
_GOING_ON = _BEFORE.where(traces.c.turn_goes_on).order_by(*_NEWEST_FIRST).limit(PAGE)
_CONTINUING = _IN_SESSION.where(traces.c.continues_turn, _START > _PLACE).order_by(*_OLDEST_FIRST).limit(PAGE)


class SessionTurns:
    """Looks up the turns of sessions, and the traces of a turn. Raises Unavailable if the database refuses.

    The traces of a turn come in pages; the page after the last is empty. A `place` is a trace's start and its id.
    """

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def before(self, session_id: str, started_at: int, trace_id: str) -> tuple[Turn, ...]:
        """Return the turns of a session before a trace, oldest first: those of its first trace and of the newest
        ones."""
        views = self._ends(_BEFORE, _values(session_id, (started_at, trace_id)))
        turns, _ = joined_turns(views)
        # A turn that goes on is not over before the given trace.
        return tuple(turns[:-1] if views and views[-1].turn_goes_on else turns)

    def of_session(self, session_id: str) -> list[TraceView]:
        """Return the first trace of a session and the newest ones, the oldest first."""
        return self._ends(_IN_SESSION, {"session_id": session_id})

    def view(self, trace_id: str) -> TraceView | None:
        """Return a trace."""
        return next(iter(self._read(_ONE, {"trace_id": trace_id})), None)

    def going_on(self, session_id: str, before: tuple[int, str]) -> list[TraceView]:
        """Return the traces before a place whose last turns go on, the newest first."""
        return self._read(_GOING_ON, _values(session_id, before))

    def continuing(self, session_id: str, after: tuple[int, str]) -> list[TraceView]:
        """Return the traces after a place that continue a turn, the oldest first."""
        return self._read(_CONTINUING, _values(session_id, after))

    def _ends(self, query: Select[Any], values: Values) -> list[TraceView]:
        """Return the first of these traces and the newest ones, the oldest first."""
        newest = self._read(query.order_by(*_NEWEST_FIRST).limit(NEWEST), values)
        first = self._read(query.order_by(*_OLDEST_FIRST).limit(1), values)
        views = {view.trace_id: view for view in (*first, *reversed(newest))}
        return sorted(views.values(), key=lambda view: view.place)

    def _read(self, query: Select[Any], values: Values) -> list[TraceView]:
        return [view_from(row.view, row.revised) for row in self._database.rows(query, values)]


def _values(session_id: str, position: tuple[int, str]) -> Values:
    return {"session_id": session_id, "started_at": position[0], "trace_id": position[1]}


def joined_turns(traces: Iterable[TraceView | Trace]) -> tuple[list[Turn], dict[str, int]]:
    """Return the turns of these traces, and the place of each trace's first turn among them, by trace.

    A turn that goes on from trace to trace is one turn.
    """
    found: list[Turn] = []
    first: dict[str, int] = {}
    goes_on = False
    for trace in traces:
        turns = list(trace.turns) if isinstance(trace, Trace) else [_turn(trace, turn) for turn in trace.turns]
        if goes_on and trace.continues_turn and turns:
            turns[0] = _joined(found.pop(), turns[0])
        first[trace.trace_id] = len(found)
        found += turns
        goes_on = trace.turn_goes_on and bool(trace.turns)
    return found, first


def _joined(begun: Turn, last: Turn) -> Turn:
    """Return a turn that began in one trace and went on in the next one."""
    return replace(
        last,
        input=last.input if begun.input is None else begun.input,
        tool_calls=(*begun.tool_calls, *last.tool_calls),
        handovers=(*begun.handovers, *last.handovers),
        model_calls=(*begun.model_calls, *last.model_calls),
        reasoning=(*begun.reasoning, *last.reasoning),
        plan=(*begun.plan, *last.plan),
    )


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
