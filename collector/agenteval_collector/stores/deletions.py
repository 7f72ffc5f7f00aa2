"""Deletions under way, the traces that they still have to erase from the log, and their receipts."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import delete, func, literal_column, select, update

from agenteval_collector.model.deletions import DeletionFilter, Receipt
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores.access import TenantConnection, TenantDatabase, ids
from agenteval_collector.stores.erasing import (
    EMPTY,
    OLDEST_CONTENT,
    erase,
    forget_content,
    forgotten_by,
    rebuild_said_index,
)
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.rows import FieldMap, to_json
from agenteval_collector.stores.schema import OF_TRACE, deletions, erasures, own, sessions, trace_views, traces
from agenteval_collector.stores.trace_json import user_in_view, user_of
from otel_agenteval.internal.text import storable

_RECEIPT: Final = FieldMap(Receipt, deletions, but=("removed",))
_TO_ERASE: Final = select(erasures.c.trace_id, erasures.c.last).where(own(erasures))


class DeletionStore:
    """The deletions that were asked for. What a method has deleted stays deleted, even after a
    power failure. Raises Unavailable."""

    def __init__(self, database: TenantDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def add(self, deletion_id: str, wanted: DeletionFilter, by: str | None) -> str:
        """Keep a request for a deletion. Return its id, or the id of the same deletion if that is under way
        already."""
        what = to_json(asdict(wanted))
        with self._database.writing() as connection:
            query = select(deletions.c.deletion_id).where(own(deletions), deletions.c.what == what)
            state: str | None = connection.execute(query).scalar()
            if state is not None:
                return state
            row = {"deletion_id": deletion_id, "what": what, "asked_by": by, "asked_at": self._clock.now()}
            connection.upsert(deletions, [{**row, "done_at": None, "removed": "{}"}])
        return deletion_id

    def pending(self) -> list[tuple[str, DeletionFilter]]:
        """Return the deletions that are not done, the oldest first."""
        query = select(deletions).where(own(deletions), deletions.c.what.is_not(None)).order_by(deletions.c.asked_at)
        return [(row.deletion_id, DeletionFilter(**json.loads(row.what))) for row in self._database.rows(query)]

    def receipt(self, deletion_id: str) -> Receipt | None:
        """Return what a deletion has removed so far; None if it is unknown."""
        rows = self._database.mappings(select(deletions).where(*_is(deletion_id)))
        return Receipt(**_RECEIPT.fields_in(rows[0]), removed=json.loads(rows[0]["removed"])) if rows else None

    def sessions_of(self, wanted: DeletionFilter) -> list[str]:
        """Return the sessions that are deleted as a whole. A user's sessions include those in which only a trace names
        the user. All traces are looked at for that."""
        if wanted.session_id is not None:
            return [wanted.session_id]
        if wanted.user_id is None:
            return []
        user_id = storable(wanted.user_id)
        named = select(sessions.c.session_id).where(own(sessions), sessions.c.user_id == user_id)
        in_traces = (
            select(traces.c.session_id, trace_views.c.view)
            .join(trace_views, OF_TRACE)
            .where(own(traces), self._database.database.contains(trace_views.c.view, user_in_view(user_id)))
        )
        with self._database.reading() as connection:
            # The text of a view may hold the user's name elsewhere, so each hit is decoded.
            session_ids = [row.session_id for row in connection.execute(in_traces) if user_of(row.view) == user_id]
            return list(dict.fromkeys((*connection.execute(named).scalars(), *session_ids)))

    def traces_of(self, wanted: DeletionFilter, session_ids: Collection[str], limit: int) -> list[str]:
        """Return at most `limit` of the stored traces that are to be deleted."""
        query = select(traces.c.trace_id).where(own(traces))
        if wanted.before is None:
            query = query.where(among(traces.c.session_id, "ids"))
        else:
            # Names both values of the column with which the index begins after the tenant, so that SQLite uses it.
            query = query.where(traces.c.has_content.in_([True, False]), traces.c.scored_at < wanted.before)
        return [row.trace_id for row in self._database.rows(query.limit(limit), ids(session_ids))]

    def empty_sessions(self, seen_before: int, limit: int) -> list[str]:
        """Return sessions without a trace that were last seen before that time (ns)."""
        return [row.session_id for row in self._database.rows(EMPTY.limit(limit), {"before": seen_before})]

    def erase(
        self, trace_ids: Collection[str], session_ids: Collection[str], deletion_id: str = "", last: int = 0
    ) -> Mapping[str, int]:
        """Delete traces and sessions, and return the number of rows by table. For a deletion, also keep that the log
        may hold these traces up to the offset `last`, until `mark_erased` is called."""
        with self._database.writing() as connection:
            removed = erase(connection, trace_ids, session_ids)
            if deletion_id:
                connection.upsert(erasures, _erasures(deletion_id, trace_ids, last))
                _add(connection, deletion_id, removed)
        return removed

    def note_erasures(self, deletion_id: str, trace_ids: Iterable[str], last: int) -> None:
        """Keep that a deletion is about to erase these traces, and that the log may hold them up to the offset
        `last`."""
        with self._database.writing() as connection:
            connection.upsert(erasures, _erasures(deletion_id, trace_ids, last))

    def last_erasure(self, deletion_id: str) -> int | None:
        """Return the last offset at which the log may hold something of a deletion; None if nothing is left to
        erase."""
        query = select(func.max(erasures.c.last)).where(own(erasures), erasures.c.deletion_id == deletion_id)
        last: int | None = self._database.value(query)
        return last

    def to_erase(self, deletion_id: str, trace_ids: Iterable[str]) -> dict[str, int]:
        """Return those of the traces that a deletion has still to erase from the log, each with the last offset that
        may hold it."""
        these = _TO_ERASE.where(erasures.c.deletion_id == deletion_id, among(erasures.c.trace_id, "ids"))
        return {row.trace_id: row.last for row in self._database.rows(these, ids(trace_ids))}

    def all_to_erase(self) -> dict[str, int]:
        """Return all traces that are still to be erased from the log, each with the last offset that may hold it."""
        return {row.trace_id: row.last for row in self._database.rows(_TO_ERASE)}

    def forget_erasures(self, last: int) -> None:
        """Forget the traces whose last offset is below `last`: the log no longer holds any of them."""
        self._database.change(delete(erasures).where(own(erasures), erasures.c.last < last))

    def add_removed(self, deletion_id: str, removed: Mapping[str, int]) -> None:
        """Add to what a deletion has removed."""
        with self._database.writing() as connection:
            _add(connection, deletion_id, removed)

    def mark_erased(self, deletion_id: str) -> None:
        """Note that the log no longer holds anything of what a deletion has deleted so far."""
        self._database.change(delete(erasures).where(own(erasures), erasures.c.deletion_id == deletion_id))

    def rebuild_said_index(self) -> None:
        """Make the index of what was said anew, without the pieces of deleted texts."""
        with self._database.writing() as connection:
            rebuild_said_index(connection)

    def mark_done(self, deletion_id: str) -> None:
        """Note that a deletion is done, and forget what it was about."""
        changed = {"what": None, "done_at": self._clock.now()}
        self._database.change(update(deletions).where(*_is(deletion_id)).values(changed))

    def forget_content(self, before: int, limit: int) -> int:
        """Forget what was said in traces that were scored before that time (ns): at most `limit`, the oldest first.
        Return how many."""
        names = forgotten_by(self._database, before, limit)
        return self._database.write(names, lambda connection: forget_content(connection, before, limit)) if names else 0

    def oldest_content(self, limit: int) -> int | None:
        """Return the time (ns) up to which the `limit` oldest traces with content were scored; None if no trace has
        content."""
        times = self._database.rows(OLDEST_CONTENT.limit(limit))
        return times[-1].scored_at if times else None

    def oldest_traces(self, before: int, limit: int) -> list[str]:
        """Return traces without content that were scored before that time (ns), the oldest first."""
        old = own(traces), traces.c.has_content == literal_column("false"), traces.c.scored_at < before
        query = select(traces.c.trace_id).where(*old).order_by(traces.c.scored_at).limit(limit)
        return [row.trace_id for row in self._database.rows(query)]

    def forget_receipts(self, before: int) -> None:
        """Forget deletions that were done before that time (ns)."""
        self._database.change(delete(deletions).where(own(deletions), deletions.c.done_at < before))


def _erasures(deletion_id: str, trace_ids: Iterable[str], last: int) -> Iterator[dict[str, Any]]:
    return ({"trace_id": trace_id, "deletion_id": deletion_id, "last": last} for trace_id in trace_ids)


def _add(connection: TenantConnection, deletion_id: str, removed: Mapping[str, int]) -> None:
    """Add to what a deletion has removed."""
    before: Any = connection.execute(select(deletions.c.removed).where(*_is(deletion_id))).scalar()
    together = Counter(json.loads(before or "{}")) + Counter(removed)
    connection.execute(update(deletions).where(*_is(deletion_id)).values(removed=to_json(together)))


def _is(deletion_id: str) -> tuple[Any, ...]:
    return own(deletions), deletions.c.deletion_id == deletion_id
