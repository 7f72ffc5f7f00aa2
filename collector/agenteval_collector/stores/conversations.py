"""Keep the links that join traces to conversations. Their number is bounded for each service, and so is their age."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import sqlalchemy as sa

from agenteval_collector.model.conversation_links import ConversationLink, LinkLookUp, LinkQuery, Move
from agenteval_collector.stores.access import TenantConnection, TenantDatabase
from agenteval_collector.stores.rows import FieldMap
from agenteval_collector.stores.schema import conversations, findings, outcomes, own, run_traces, sessions, traces
from otel_agenteval.outcome import SubjectKind

MAX_LINKS: Final = 100_000
"""The most traces that are kept of a service; about 50 MB."""
MAX_AGE: Final = 30 * 24 * 3600 * 1_000_000_000
"""Nanoseconds for which the link of a trace is kept."""
MOST: Final = 32
"""The most links with the same digest that are looked at. If so many traces end or go on alike, none of them is
certain anyway."""

_LINK: Final = FieldMap(ConversationLink, conversations)
_COLUMNS: Final = [conversations.c[name] for name in _LINK.names]


class ConversationStore:
    """Looks up the links of a service. If there are many, it returns those that started first.

    Each look-up is added to the list `noted`, if there is one. Raises Unavailable if the database refuses.
    """

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database
        # Made once: making a statement costs more than running it.
        dialect = database.database.dialect
        mine = own(conversations)
        of_service = conversations.c.service == sa.bindparam("service")
        named = conversations.c.named
        closeness = sa.case((named == sa.bindparam("named"), 0), (named.is_(None), 1), else_=2)
        fits = sa.or_(sa.bindparam("named", type_=sa.String).is_(None), named.is_(None), named == sa.bindparam("named"))
        follows = conversations.c.follows.in_([sa.bindparam(name) for name in _KEYS])
        started = conversations.c.started_at.between(sa.bindparam("since"), sa.bindparam("until"))
        # The whole condition for each column, so that the database uses the index of each.
        ends = [sa.and_(mine, of_service, conversations.c[name] == sa.bindparam("key")) for name in _ENDS]
        links = sa.select(*_COLUMNS)
        queries = {
            LinkQuery.OF_TRACE: links.where(mine, conversations.c.trace_id == sa.bindparam("trace_id")),
            LinkQuery.UNNAMED: links.where(mine, of_service, named.is_(None)).limit(1),
            LinkQuery.ENDING: links.where(sa.or_(*ends)).order_by(closeness, conversations.c.started_at).limit(MOST),
            LinkQuery.FOLLOWING: links.where(mine, of_service, follows, started, fits)
            .order_by(conversations.c.started_at)
            .limit(MOST),
        }
        self._queries = {name: _Query(query, dialect) for name, query in queries.items()}

    def link(self, trace_id: str, noted: list[LinkLookUp] | None = None) -> ConversationLink | None:
        """Return the link of a trace."""
        return next(iter(self._look_up(LinkQuery.OF_TRACE, {"trace_id": trace_id}, noted)), None)

    def has_unnamed(self, service: str, noted: list[LinkLookUp] | None = None) -> bool:
        """Return whether any link of the service names no session."""
        return bool(self._look_up(LinkQuery.UNNAMED, {"service": service}, noted))

    def ending(
        self, service: str, key: bytes, named: str | None, noted: list[LinkLookUp] | None = None
    ) -> Sequence[ConversationLink]:
        """Return the links that end in `key`. Those of session `named` come first, then those that name none, those of
        another session last."""
        return self._look_up(LinkQuery.ENDING, {"service": service, "key": key, "named": named}, noted)

    def following(
        self,
        service: str,
        keys: Sequence[bytes],
        named: str | None,
        *,
        since: int,
        until: int,
        noted: list[LinkLookUp] | None = None,
    ) -> Sequence[ConversationLink]:
        """Return the links that follow one of at most four `keys`, and started from `since` to `until`.

        Both times are in nanoseconds and included. If `named` is given, links that name another session are left out.
        """
        values: dict[str, Any] = {"service": service, "named": named, "since": since, "until": until}
        return self._look_up(LinkQuery.FOLLOWING, values | dict(zip_longest(_KEYS, keys)), noted)

    def is_outdated(self, look_up: LinkLookUp) -> bool:
        """Return whether a look-up would find something else now."""
        links = self._find(look_up.query, look_up.values)
        if look_up.query is LinkQuery.UNNAMED:
            return bool(links) != bool(look_up.found)
        return links != look_up.found

    def _look_up(
        self, query: LinkQuery, values: Mapping[str, Any], noted: list[LinkLookUp] | None
    ) -> list[ConversationLink]:
        links = self._find(query, values)
        if noted is not None:
            noted.append(LinkLookUp(query, values, links))
        return links

    def _find(self, query: LinkQuery, values: Mapping[str, Any]) -> list[ConversationLink]:
        compiled = self._queries[query]
        with self._database.reading() as connection:
            rows = connection.read_sql(compiled.sql, {**compiled.constants, **values}).all()
        return [_link(row) for row in rows]


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
        columns = [
            sa.literal(begun[column.name], column.type) if column.name in begun else column
            for column in sessions.columns
        ]
        # If the joined session is new, it begins as a copy of the session left: the traces of a conversation are of
        # one service and one user.
        is_known = sa.exists().where(own(_JOINED), _JOINED.c.session_id == move.joined)
        leaving = sa.select(*columns).where(own(sessions), sessions.c.session_id == move.left, ~is_known)
        names = [column.name for column in sessions.columns]
        connection.execute(sa.insert(sessions).from_select(names, leaving))
        for table, of_trace in _MOVED:
            mine = sa.update(table).where(own(table), of_trace)
            connection.execute(mine.values(session_id=move.joined), {"of": move.trace_id})


def second_records(connection: TenantConnection, session_id: str) -> set[str]:
    """Return the traces of a session that record a model call without its content, if another trace records the same
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
