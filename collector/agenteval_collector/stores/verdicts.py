"""The loops that agents were found in."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from sqlalchemy import ColumnElement, Connection, Engine, Row, Select, insert, literal_column, select, update

from agenteval_collector.database import among
from agenteval_collector.documents import verdict_document
from agenteval_collector.pipeline import Document, FoundVerdict, RunningTrace, ToldVerdict, TraceNames, VerdictKey
from agenteval_collector.stores.access import reading, writing
from agenteval_collector.stores.schema import traces, verdicts
from otel_agenteval.detectors import Mode, Verdict

MAX_SHOWN = 50
"""Verdicts of a trace or a session that are read, the newest."""
MAX_OVERDUE: Final = 500
"""Verdicts that are counted at a time without a known agent."""
MAX_UNEXPORTED: Final = 4096
"""Verdicts whose events leave again, the newest."""

_Key: TypeAlias = tuple[str, str | None, str]


class VerdictStore:
    """Verdicts on the store's file, each once. Thread-safe; every method raises Unavailable where the file refuses.

    A commit survives the process, kill -9 included; what is lost with the machine, a replay of the log finds again.
    """

    def __init__(self, engine: Engine, tenant: str) -> None:
        self._engine = engine
        self._tenant = tenant
        # Made once: making them costs more than running them.
        self._on_traces = select(verdicts).where(verdicts.c.tenant == tenant, among(verdicts.c.trace_id, "ids"))
        self._first_on_traces = self._on_traces.limit(1)

    def keep(
        self, found: Sequence[FoundVerdict], complete: Sequence[TraceNames] = ()
    ) -> tuple[list[ToldVerdict], list[FoundVerdict]]:
        """Keep those of `found` that are not known by trace, kind and span; of those that are, and of all on `complete`
        traces, whose they are.

        Returns those that are new or named by that, and those that count now, because their agent is known.
        """
        trace_ids = {each.verdict.trace_id for each in found} | {names.trace_id for names in complete}
        if not found and not self._any(trace_ids):
            return [], []
        with writing(self._engine) as connection:
            kept = self._read(connection, trace_ids)
            _add(kept, found)
            names_of = {names.trace_id: names for names in complete}
            for (trace_id, _, _), one in kept.items():
                if trace_id in names_of:
                    one.name(names_of[trace_id].session_id, names_of[trace_id].agent, final=True)
            self._write(connection, kept.values())
        told = [ToldVerdict(one.found, one.before) for one in kept.values() if one.is_told]
        return told, [one.found for one in kept.values() if one.counts]

    def newest(self, limit: int) -> list[FoundVerdict]:
        """So many that were found last, the oldest of them first. Reads all there are."""
        query = select(verdicts).where(verdicts.c.tenant == self._tenant)
        query = query.order_by(verdicts.c.found_at.desc()).limit(limit)
        with reading(self._engine) as connection:
            return [_found(row) for row in reversed(connection.execute(query).all())]

    def overdue(self, before: int) -> list[FoundVerdict]:
        """Those found before that time (ns) whose agent is not known yet, the oldest: they count now all the same."""
        query = select(verdicts).where(
            verdicts.c.tenant == self._tenant,
            # As the index has it, which SQLite takes for a constant only.
            literal_column("verdicts.counted = 0"),
            verdicts.c.found_at < before,
        )
        query = query.order_by(verdicts.c.found_at).limit(MAX_OVERDUE)
        with reading(self._engine) as connection:
            if connection.execute(query.limit(1)).first() is None:
                return []
        with writing(self._engine) as connection:
            found = [_found(row) for row in connection.execute(query)]
            for each in found:
                connection.execute(update(verdicts).where(*self._is(each.verdict)).values(counted=True))
        return found

    def unexported(self, since: int) -> list[FoundVerdict]:
        """Those found after that time (ns) that count, and whose events have not left, the oldest first."""
        query = select(verdicts).where(
            verdicts.c.tenant == self._tenant,
            literal_column("verdicts.exported = 0"),
            verdicts.c.counted,
            verdicts.c.found_at >= since,
        )
        query = query.order_by(verdicts.c.found_at.desc()).limit(MAX_UNEXPORTED)
        with reading(self._engine) as connection:
            return [_found(row) for row in reversed(connection.execute(query).all())]

    def exported(self, keys: Sequence[VerdictKey]) -> None:
        """The events of these verdicts have left."""
        with writing(self._engine) as connection:
            for key in keys:
                connection.execute(update(verdicts).where(*self._is(key)).values(exported=True))

    def _any(self, trace_ids: Collection[str]) -> bool:
        with reading(self._engine) as connection:
            return connection.execute(self._first_on_traces, _ids(trace_ids)).first() is not None

    def _read(self, connection: Connection, trace_ids: Collection[str]) -> "dict[_Key, _Kept]":
        return {
            (row.trace_id, row.kind, row.span_id): _Kept(_found(row), _found(row), row.counted)
            for row in connection.execute(self._on_traces, _ids(trace_ids))
        }

    def _write(self, connection: Connection, kept: "Collection[_Kept]") -> None:
        new = [_row(self._tenant, one.found) for one in kept if one.before is None]
        if new:
            connection.execute(insert(verdicts), new)
        for one in kept:
            if one.before is not None and (one.is_told or one.counts):
                row = _row(self._tenant, one.found)
                changed = {name: row[name] for name in ("session_id", "agent", "service")}
                changed["counted"] = one.counted or one.counts
                connection.execute(update(verdicts).where(*self._is(one.found.verdict)).values(changed))

    def _is(self, verdict: Verdict | VerdictKey) -> tuple[ColumnElement[bool], ...]:
        key = verdicts.c.trace_id == verdict.trace_id, verdicts.c.kind == verdict.kind
        return verdicts.c.tenant == self._tenant, *key, verdicts.c.span_id == verdict.span_id


@dataclass(slots=True)
class _Kept:
    """A verdict as it is now and as it was stored `before`, if it was."""

    found: FoundVerdict
    before: FoundVerdict | None = None
    counted: bool = False

    @property
    def is_told(self) -> bool:
        before, found = self.before, self.found
        is_same = before and (before.verdict.session_id, before.agent) == (found.verdict.session_id, found.agent)
        return not is_same

    @property
    def counts(self) -> bool:
        return not self.counted and self.found.agent is not None

    def name(self, session_id: str, agent: str | None, *, final: bool = False) -> None:
        """Take over what was not known before, and a `final` session in any case."""
        verdict = self.found.verdict
        if session_id != verdict.trace_id and (final or verdict.session_id == verdict.trace_id):
            verdict = replace(verdict, session_id=session_id)
        self.found = replace(self.found, verdict=verdict, agent=self.found.agent or agent)


def _add(kept: dict[_Key, _Kept], found: Sequence[FoundVerdict]) -> None:
    spans: dict[tuple[str, str | None], set[str]] = {}
    for trace_id, kind, span_id in kept:
        spans.setdefault((trace_id, kind), set()).add(span_id)
    for each in found:
        verdict = each.verdict
        key = (verdict.trace_id, verdict.kind, verdict.span_id)
        known = spans.setdefault((verdict.trace_id, verdict.kind), set())
        if (one := kept.get(key)) is not None:
            # Processes are not stored: they are as they are now.
            one.found = replace(one.found, processes=each.processes, service=one.found.service or each.service)
            one.before = one.before and replace(one.before, processes=each.processes)
            one.name(verdict.session_id, each.agent)
        elif each.beside is None or known <= each.beside:
            kept[key] = _Kept(each)
            known.add(verdict.span_id)


def _ids(trace_ids: Collection[str]) -> dict[str, str]:
    return {"ids": json.dumps(sorted(trace_ids))}


def read_verdicts(connection: Connection, tenant: str, trace_id: str) -> list[Document]:
    """The newest verdicts on a trace, the oldest of them first."""
    query = select(verdicts).where(verdicts.c.tenant == tenant, verdicts.c.trace_id == trace_id)
    return [verdict_document(row) for row in _newest(connection, query)]


def read_session_verdicts(
    connection: Connection, tenant: str, session_id: str, running: Collection[RunningTrace]
) -> list[Document]:
    """The newest verdicts on the traces of a session, the oldest of them first; `running` are those of its traces
    that are not complete."""
    of_session = select(traces.c.trace_id).where(traces.c.tenant == tenant, traces.c.session_id == session_id)
    # No join: SQLite would begin it with all verdicts there are.
    complete = select(verdicts).where(verdicts.c.tenant == tenant, verdicts.c.trace_id.in_(of_session))
    rows = _newest(connection, complete)
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
        "counted": found.agent is not None,
        "exported": False,
    }


def _found(row: Row[Any]) -> FoundVerdict:
    verdict = Verdict(
        name=row.name,
        kind=row.kind,
        mode=Mode(row.mode),
        session_id=row.session_id,
        trace_id=row.trace_id,
        span_id=row.span_id,
        reason=row.reason,
        metadata=json.loads(row.metadata),
    )
    return FoundVerdict(
        verdict=verdict, agent=row.agent, service=row.service, processes=frozenset(), found_at=row.found_at
    )
