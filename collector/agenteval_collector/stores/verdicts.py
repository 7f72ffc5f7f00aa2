"""The loops that agents were found in."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Select, insert, select

from agenteval_collector.database import in_parts
from agenteval_collector.documents import verdict_document
from agenteval_collector.pipeline import Document, FoundVerdict, RunningTrace
from agenteval_collector.stores.access import reading, writing
from agenteval_collector.stores.schema import traces, verdicts

MAX_SHOWN = 50
"""Verdicts of a trace or a session that are read, the newest."""


class VerdictStore:
    """Verdicts on the store's file, each once. Thread-safe; every method raises Unavailable where the file refuses.

    A commit survives the process, kill -9 included; what is lost with the machine, a replay of the log finds again.
    """

    def __init__(self, engine: Engine, tenant: str) -> None:
        self._engine = engine
        self._tenant = tenant

    def keep(self, found: Sequence[FoundVerdict]) -> list[FoundVerdict]:
        """Those of `found` that were not known by trace, kind and span; they are kept now."""
        new: dict[tuple[str, str, str], FoundVerdict] = {}
        with writing(self._engine) as connection:
            known = self._known(connection, {each.verdict.trace_id for each in found})
            for each in found:
                verdict = each.verdict
                if (verdict.kind, verdict.span_id) not in known.get(verdict.trace_id, ()):
                    new.setdefault((verdict.trace_id, verdict.kind, verdict.span_id), each)
            if new:
                connection.execute(insert(verdicts), [_row(self._tenant, each) for each in new.values()])
        return list(new.values())

    def known(self, trace_id: str) -> set[tuple[str, str]]:
        """Kind and span of the verdicts on a trace."""
        with reading(self._engine) as connection:
            return self._known(connection, {trace_id}).get(trace_id, set())

    def _known(self, connection: Connection, trace_ids: set[str]) -> dict[str, set[tuple[str, str]]]:
        known: dict[str, set[tuple[str, str]]] = {}
        for some in in_parts(sorted(trace_ids)):
            query = select(verdicts.c.trace_id, verdicts.c.kind, verdicts.c.span_id).where(
                verdicts.c.tenant == self._tenant, verdicts.c.trace_id.in_(some)
            )
            for row in connection.execute(query):
                known.setdefault(row.trace_id, set()).add((row.kind, row.span_id))
        return known


def read_verdicts(connection: Connection, tenant: str, trace_id: str) -> list[Document]:
    """The newest verdicts on a trace, the oldest of them first."""
    query = select(verdicts).where(verdicts.c.tenant == tenant, verdicts.c.trace_id == trace_id)
    return [verdict_document(row) for row in _newest(connection, query)]


def read_session_verdicts(
    connection: Connection, tenant: str, session_id: str, running: Collection[RunningTrace]
) -> list[Document]:
    """The newest verdicts on the traces of a session, the oldest of them first; `running` are those of its traces
    that are not complete."""
    joined = (verdicts.c.tenant == traces.c.tenant) & (verdicts.c.trace_id == traces.c.trace_id)
    complete = select(verdicts).select_from(traces.join(verdicts, joined))
    rows = _newest(connection, complete.where(traces.c.tenant == tenant, traces.c.session_id == session_id))
    if running:
        ids = [trace.trace_id for trace in running]
        rows += _newest(connection, select(verdicts).where(verdicts.c.tenant == tenant, verdicts.c.trace_id.in_(ids)))
    unique = {(row["trace_id"], row["kind"], row["span_id"]): row for row in rows}
    newest = sorted(unique.values(), key=lambda row: row["found_at"])[-MAX_SHOWN:]
    return [{"trace_id": row["trace_id"], **verdict_document(row)} for row in newest]


def _newest(connection: Connection, query: Select[Any]) -> list[Mapping[str, Any]]:
    rows = connection.execute(query.order_by(verdicts.c.found_at.desc(), verdicts.c.kind).limit(MAX_SHOWN)).mappings()
    return [dict(row) for row in reversed(rows.all())]


def _row(tenant: str, found: FoundVerdict) -> dict[str, Any]:
    verdict = found.verdict
    return {
        "tenant": tenant,
        "trace_id": verdict.trace_id,
        "kind": verdict.kind,
        "span_id": verdict.span_id,
        "name": verdict.name,
        "mode": verdict.mode,
        "session_id": verdict.session_id,
        "agent": found.agent,
        "service": found.service,
        "reason": verdict.reason,
        "metadata": json.dumps(dict(verdict.metadata)),
        "found_at": found.found_at,
    }
