"""Look up the documents of traces whose turns go on from trace to trace."""

import json
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Engine, Select, bindparam, select, tuple_

from agenteval_collector.model.commit import TraceDocument
from agenteval_collector.model.rendering import with_copies
from agenteval_collector.stores.access import reading
from agenteval_collector.stores.schema import OF_TRACE, trace_documents, traces

PAGE: Final = 16
"""Traces that are read at a time."""


class TurnStore:
    """`TurnStore` of the conversations, on the store's file. Raises Unavailable where the file refuses."""

    def __init__(self, engine: Engine, tenant: str) -> None:
        self._engine = engine
        columns = (
            select(traces.c.trace_id, traces.c.started_at, trace_documents.c.document)
            .join_from(traces, trace_documents, OF_TRACE)
            .where(traces.c.tenant == tenant)
        )
        in_session = columns.where(traces.c.session_id == bindparam("session_id")).limit(PAGE)
        start = tuple_(traces.c.started_at, traces.c.trace_id)
        place = tuple_(bindparam("started_at"), bindparam("trace_id"))
        self._one = columns.where(traces.c.trace_id == bindparam("trace_id"))
        self._going_on = in_session.where(traces.c.turn_goes_on, start < place).order_by(
            traces.c.started_at.desc(), traces.c.trace_id.desc()
        )
        self._continuing = in_session.where(traces.c.continues_turn, start > place).order_by(
            traces.c.started_at, traces.c.trace_id
        )

    def document(self, trace_id: str) -> TraceDocument | None:
        return next(iter(self._read(self._one, {"trace_id": trace_id})), None)

    def going_on(self, session_id: str, before: tuple[int, str]) -> list[TraceDocument]:
        return self._read(self._going_on, _values(session_id, before))

    def continuing(self, session_id: str, after: tuple[int, str]) -> list[TraceDocument]:
        return self._read(self._continuing, _values(session_id, after))

    def _read(self, query: Select[Any], values: Mapping[str, Any]) -> list[TraceDocument]:
        with reading(self._engine) as connection:
            rows = connection.execute(query, values).all()
        return [
            TraceDocument(
                trace_id=row.trace_id, started_at=row.started_at, document=with_copies(json.loads(row.document))
            )
            for row in rows
        ]


def _values(session_id: str, place: tuple[int, str]) -> dict[str, Any]:
    return {"session_id": session_id, "started_at": place[0], "trace_id": place[1]}
