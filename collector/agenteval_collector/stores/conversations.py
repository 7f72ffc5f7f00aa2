"""Keep the links that join traces to conversations. Their number is bounded for each service, and so is their age."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import sqlalchemy as sa

from agenteval_collector.model.conversation_links import ConversationLink, Move
from agenteval_collector.stores.access import TenantConnection, TenantDatabase
from agenteval_collector.stores.rows import FieldMap
from agenteval_collector.stores.schema import conversations, findings, outcomes, own, run_traces, sessions, traces
from otel_agenteval.outcome import SubjectKind

MAX_LINKS: Final = 100_000
"""The most traces that are kept of a service; about 50 MB."""
MAX_AGE: Final = 30 * 24 * 3600 * 1_000_000_000
"""Nanoseconds for which the link of a trace is kept."""
MOST: Final = 32
"""The most links with the same digest that are looked at. Where so many traces end or go on alike, none of them is
certain anyway."""

_LINK: Final = FieldMap(ConversationLink, conversations)
_COLUMNS: Final = [conversations.c[name] for name in _LINK.names]


class ConversationStore:
    """`LinkStore` on the store's database. Raises Unavailable where the database refuses."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database
        # Made once: making a statement costs more than running it.
        dialect = database.database.dialect
        mine = own(conversations)
        of_service = conversations.c.service == sa.bindparam("service")
        self._link = _Query(
            sa.select(*_COLUMNS).where(mine, conversations.c.trace_id == sa.bindparam("trace_id")), dialect
        )
        named = conversations.c.named
        closeness = sa.case((named == sa.bindparam("named"), 0), (named.is_(None), 1), else_=2)
        fits = sa.or_(sa.bindparam("named", type_=sa.String).is_(None), named.is_(None), named == sa.bindparam("named"))
        self._unnamed = _Query(sa.select(sa.literal(1)).where(mine, of_service, named.is_(None)).limit(1), dialect)
        self._ending = _Query(
            sa.select(*_COLUMNS)
            # The whole condition for each column, so that the database uses the index of each.
            .where(sa.or_(*(sa.and_(mine, of_service, conversations.c[name] == sa.bindparam("key")) for name in _ENDS)))
            .order_by(closeness, conversations.c.started_at)
            .limit(MOST),
            dialect,
        )
        follows = conversations.c.follows.in_([sa.bindparam(name) for name in _KEYS])
        started = conversations.c.started_at.between(sa.bindparam("since"), sa.bindparam("until"))
        self._following = _Query(
            sa.select(*_COLUMNS)
            .where(mine, of_service, follows, started, fits)
            .order_by(conversations.c.started_at)
            .limit(MOST),
            dialect,
        )

    def link(self, trace_id: str) -> ConversationLink | None:
        return next(map(_link, self._read(self._link, {"trace_id": trace_id})), None)

    def has_unnamed(self, service: str) -> bool:
        return bool(self._read(self._unnamed, {"service": service}))

    def ending(self, service: str, key: bytes, named: str | None) -> Sequence[ConversationLink]:
        return [*map(_link, self._read(self._ending, {"service": service, "key": key, "named": named}))]

    def following(
        self, service: str, keys: Sequence[bytes], named: str | None, *, since: int, until: int
    ) -> Sequence[ConversationLink]:
        values: dict[str, Any] = {"service": service, "named": named, "since": since, "until": until}
        values |= zip_longest(_KEYS, keys)
        return [*map(_link, self._read(self._following, values))]

    def _read(self, query: "_Query", values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        with self._database.reading() as connection:
            return connection.read_sql(query.sql, {**query.constants, **values}).all()


class _Query:
    """A statement compiled for the driver. The driver runs it in a fifth of the time that SQLAlchemy takes."""

    def __init__(self, query: sa.Select[Any], dialect: sa.Dialect) -> None:
        compiled = query.compile(dialect=dialect)
        self.sql = str(compiled)
        self.constants = {name: value for name, value in compiled.params.items() if value is not None}


def _link(row: Sequence[Any]) -> ConversationLink:
    # SQLite's driver knows no booleans.
    values = dict(zip(_LINK.names, row, strict=True))
    return ConversationLink(**values | {"answered": bool(values["answered"])})


def write_links(connection: TenantConnection, links: Iterable[ConversationLink], now: int) -> None:
    """Keep these links in place of those of the same traces."""
    connection.upsert(conversations, ({"kept_at": now, **_LINK.columns_of(link)} for link in links))


def write_moves(connection: TenantConnection, moves: Iterable[Move]) -> None:
    """Move traces, with all that is kept of them, to the sessions that they have joined."""
    for move in moves:
        begun = {"session_id": move.joined, "started_at": move.started_at, "trace_count": 0, **_NOT_OVER}
        columns = [sa.literal(begun[each.name], each.type) if each.name in begun else each for each in sessions.columns]
        # Where the joined session is new, it begins as a copy of the session left: the traces of a conversation are of
        # one service and one user.
        is_known = sa.exists().where(own(_JOINED), _JOINED.c.session_id == move.joined)
        left = sa.select(*columns).where(own(sessions), sessions.c.session_id == move.left, ~is_known)
        names = [each.name for each in sessions.columns]
        connection.execute(sa.insert(sessions).from_select(names, left))
        for table, of_trace in _MOVED:
            mine = sa.update(table).where(own(table), of_trace)
            connection.execute(mine.values(session_id=move.joined), {"of": move.trace_id})


def second_records(connection: TenantConnection, session_id: str) -> set[str]:
    """Return the traces of a session that record a model call without its content, where another trace records the same
    call in full."""
    whole = conversations.alias()
    query = (
        sa.select(conversations.c.trace_id)
        .join(whole, sa.and_(own(whole), *(whole.c[name] == conversations.c[name] for name in _OF_CALL)))
        .where(own(conversations), conversations.c.session_id == session_id)
        .where(
            conversations.c.follows == conversations.c.reply, sa.func.coalesce(whole.c.follows, b"") != whole.c.reply
        )
        .where(conversations.c.started_at.between(whole.c.started_at, whole.c.ended_at))
    )
    return set(connection.execute(query).scalars())


def trim_links(connection: TenantConnection, now: int, most: int = MAX_LINKS) -> None:
    """Forget the links that are too old, and the oldest links of services that have more than `most`."""
    mine = own(conversations)
    connection.execute(sa.delete(conversations).where(mine, conversations.c.kept_at < now - MAX_AGE))
    counted = sa.select(conversations.c.service, sa.func.count()).where(mine).group_by(conversations.c.service)
    for service, count in connection.execute(counted.having(sa.func.count() > most)).all():
        of_service = (mine, conversations.c.service == service)
        oldest = sa.select(conversations.c.trace_id).where(*of_service).order_by(conversations.c.kept_at)
        surplus = oldest.limit(count - most)
        connection.execute(sa.delete(conversations).where(*of_service, conversations.c.trace_id.in_(surplus)))


_JOINED: Final = sessions.alias()
_ENDS: Final = ("said", "reply", "calls")
_OF_CALL: Final = ("service", "reply", "session_id")
_KEYS: Final = ("first", "second", "third", "fourth")
_NOT_OVER: Final = {"finalized_at": None, "ended_at": None}
_MOVED: Final = (
    (traces, traces.c.trace_id == sa.bindparam("of")),
    (outcomes, sa.and_(outcomes.c.subject == SubjectKind.TRACE, outcomes.c.subject_id == sa.bindparam("of"))),
    (run_traces, run_traces.c.trace_id == sa.bindparam("of")),
    (findings, findings.c.trace_id == sa.bindparam("of")),
)
