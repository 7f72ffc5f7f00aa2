"""Deletions under way, what they still have to erase from the log, and their receipts."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import delete, func, literal_column, select, update

from agenteval_collector.model.deletion import Doomed, Receipt
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.json_lists import among
from agenteval_collector.stores.access import TenantConnection, TenantDatabase, ids
from agenteval_collector.stores.erasing import erase, without_traces
from agenteval_collector.stores.forgetting import forget_content, forgotten_by, oldest_content
from agenteval_collector.stores.rows import to_json
from agenteval_collector.stores.said_index import drop_deleted
from agenteval_collector.stores.schema import OF_TRACE, deletions, erasures, own, sessions, trace_views, traces
from agenteval_collector.stores.trace_json import user_in_view, user_of
from otel_agenteval.text import storable


class DeletionStore:
    """`Deletions` of the retention, on the store's file: what it says is deleted stays so. Raises Unavailable."""

    def __init__(self, database: TenantDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def ask(self, deletion_id: str, doomed: Doomed, by: str | None) -> str:
        """Keep that this is to be deleted. Returns the deletion's id: another one where it is under way already."""
        what = to_json(asdict(doomed))
        with self._database.writing() as connection:
            query = select(deletions.c.deletion_id).where(own(deletions), deletions.c.what == what)
            known: str | None = connection.execute(query).scalar()
            if known is not None:
                return known
            row = {"deletion_id": deletion_id, "what": what, "asked_by": by, "asked_at": self._clock.now()}
            connection.upsert(deletions, [{**row, "done_at": None, "removed": "{}"}])
        return deletion_id

    def pending(self) -> list[tuple[str, Doomed]]:
        """Return the deletions that are not done, the oldest first."""
        query = select(deletions).where(own(deletions), deletions.c.what.is_not(None)).order_by(deletions.c.asked_at)
        with self._database.reading() as connection:
            return [(row.deletion_id, Doomed(**json.loads(row.what))) for row in connection.execute(query)]

    def receipt(self, deletion_id: str) -> Receipt | None:
        """Return what a deletion has removed so far; None where it is unknown."""
        query = select(deletions).where(own(deletions), deletions.c.deletion_id == deletion_id)
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            return None
        return Receipt(
            deletion_id=deletion_id,
            asked_by=row.asked_by,
            asked_at=row.asked_at,
            done_at=row.done_at,
            removed=json.loads(row.removed),
        )

    def sessions_of(self, doomed: Doomed) -> list[str]:
        """Return the sessions that go as a whole: a user's, too, where a trace in it alone names the user. Looks at all
        traces for that."""
        if doomed.session_id is not None:
            return [doomed.session_id]
        if doomed.user_id is None:
            return []
        user_id = storable(doomed.user_id)
        named = select(sessions.c.session_id).where(own(sessions), sessions.c.user_id == user_id)
        in_traces = (
            select(traces.c.session_id, trace_views.c.view)
            .join(trace_views, OF_TRACE)
            .where(own(traces), self._database.database.contains(trace_views.c.view, user_in_view(user_id)))
        )
        with self._database.reading() as connection:
            found = [row.session_id for row in connection.execute(in_traces) if user_of(row.view) == user_id]
            return list(dict.fromkeys((*connection.execute(named).scalars(), *found)))

    def traces_of(self, doomed: Doomed, session_ids: Collection[str], limit: int) -> list[str]:
        """Return at most `limit` of the stored traces that are to be deleted."""
        query = select(traces.c.trace_id).where(own(traces))
        if doomed.before is None:
            query = query.where(among(traces.c.session_id, "ids"))
        else:
            # Both values of what the index begins with: so SQLite takes it.
            query = query.where(traces.c.has_content.in_([True, False]), traces.c.scored_at < doomed.before)
        with self._database.reading() as connection:
            return list(connection.execute(query.limit(limit), ids(session_ids)).scalars())

    def empty_sessions(self, seen_before: int, limit: int) -> list[str]:
        """Return sessions without a trace that were last seen before that time (ns)."""
        with self._database.reading() as connection:
            return without_traces(connection, seen_before, limit)

    def erase(
        self, trace_ids: Collection[str], session_ids: Collection[str], deletion_id: str = "", last: int = 0
    ) -> Mapping[str, int]:
        """Delete traces and sessions; returns the rows by table. For a deletion, keeps that the log may hold them up to
        the offset `last`, until `erased`."""
        with self._database.writing() as connection:
            removed = erase(connection, trace_ids, session_ids)
            if deletion_id:
                connection.upsert(erasures, ({"trace_id": each, "last": last} for each in trace_ids))
                _add(connection, deletion_id, removed)
        return removed

    def last_erasure(self) -> int | None:
        """Return the last offset at which the log may hold what is deleted; None where nothing is left to erase."""
        with self._database.reading() as connection:
            last: int | None = connection.execute(select(func.max(erasures.c.last)).where(own(erasures))).scalar()
        return last

    def doomed(self, trace_ids: Iterable[str]) -> dict[str, int]:
        """Return those of the traces that are to be erased from the log, each with the last offset to be looked at."""
        query = select(erasures.c.trace_id, erasures.c.last).where(own(erasures), among(erasures.c.trace_id, "ids"))
        with self._database.reading() as connection:
            return {row.trace_id: row.last for row in connection.execute(query, ids(trace_ids))}

    def all_doomed(self) -> dict[str, int]:
        """Return all traces that are to be erased from the log, each with the last offset to be looked at."""
        with self._database.reading() as connection:
            rows = connection.execute(select(erasures.c.trace_id, erasures.c.last).where(own(erasures)))
            return {row.trace_id: row.last for row in rows}

    def forget_doomed(self, last: int) -> None:
        """Forget the traces whose last offset is below `last`: the log holds none of them any more."""
        with self._database.writing() as connection:
            connection.execute(delete(erasures).where(own(erasures), erasures.c.last < last))

    def removed(self, deletion_id: str, removed: Mapping[str, int]) -> None:
        """Add to what a deletion has removed."""
        with self._database.writing() as connection:
            _add(connection, deletion_id, removed)

    def erased(self) -> None:
        """Note that the log holds nothing any more of what was deleted so far."""
        with self._database.writing() as connection:
            connection.execute(delete(erasures).where(own(erasures)))

    def forget_pieces(self) -> None:
        """Take the pieces of deleted texts out of the index of what was said."""
        with self._database.writing() as connection:
            drop_deleted(connection)

    def done(self, deletion_id: str) -> None:
        """Note that a deletion is done, and forget what it was about."""
        changed = {"what": None, "done_at": self._clock.now()}
        with self._database.writing() as connection:
            connection.execute(update(deletions).where(*_is(deletion_id)).values(changed))

    def forget_content(self, before: int, limit: int) -> int:
        """Forget what was said in the oldest traces scored before that time (ns), at most `limit`; return how many."""
        with self._database.reading() as connection:
            names = forgotten_by(connection, before, limit)
        return self._database.write(names, lambda connection: forget_content(connection, before, limit)) if names else 0

    def oldest_content(self, limit: int) -> int | None:
        """Return the time (ns) up to which the `limit` oldest traces with content were scored; None where none has."""
        with self._database.reading() as connection:
            return oldest_content(connection, limit)

    def oldest_traces(self, before: int, limit: int) -> list[str]:
        """Return traces without content that were scored before that time (ns), the oldest first."""
        old = own(traces), traces.c.has_content == literal_column("false"), traces.c.scored_at < before
        with self._database.reading() as connection:
            query = select(traces.c.trace_id).where(*old).order_by(traces.c.scored_at)
            return list(connection.execute(query.limit(limit)).scalars())

    def forget_receipts(self, before: int) -> None:
        """Forget deletions that were done before that time (ns)."""
        with self._database.writing() as connection:
            connection.execute(delete(deletions).where(own(deletions), deletions.c.done_at < before))


def _add(connection: TenantConnection, deletion_id: str, removed: Mapping[str, int]) -> None:
    """Add to what a deletion has removed."""
    before: Any = connection.execute(select(deletions.c.removed).where(*_is(deletion_id))).scalar()
    together = Counter(json.loads(before or "{}")) + Counter(removed)
    connection.execute(update(deletions).where(*_is(deletion_id)).values(removed=to_json(together)))


def _is(deletion_id: str) -> tuple[Any, ...]:
    return own(deletions), deletions.c.deletion_id == deletion_id
