"""Look at stores: what refers to rows that are lost, and how a store stands that is no file of ours."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.stores import newest_revision
from agenteval_collector.stores.engines import Use
from agenteval_collector.wiring.storage import schema_of

LOST: Final = {
    # First: what the log still has of such a trace is scored again only where the store does not know it.
    "traces": "traces t WHERE NOT EXISTS (SELECT 1 FROM trace_views v WHERE v.trace_id = t.trace_id)",
    "trace_views": "trace_views v WHERE NOT EXISTS (SELECT 1 FROM traces t WHERE t.trace_id = v.trace_id)",
    "outcomes of traces": "outcomes o WHERE o.subject = 'trace' AND NOT EXISTS "
    "(SELECT 1 FROM traces t WHERE t.trace_id = o.subject_id)",
    "outcomes of sessions": "outcomes o WHERE o.subject = 'session' AND NOT EXISTS "
    "(SELECT 1 FROM sessions s WHERE s.session_id = o.subject_id)",
    "problem_traces": "problem_traces p WHERE NOT EXISTS (SELECT 1 FROM problems q WHERE q.problem_id = p.problem_id)",
}
"""Conditions that find rows which refer to others that are lost, as they follow FROM; by what the rows are."""


@dataclass(frozen=True, slots=True)
class State:
    """How the store of a tenant stands: where it is, what is wrong with it, and what it knows of the log."""

    name: str
    troubles: Sequence[str]
    checkpoint: int | None


def state_of(url: str, tenant: str) -> State:
    """Look at the store of a tenant in a database; a collector may use it meanwhile. Raises CollectorError where that
    cannot be done."""
    database = schema_of(url, tenant, Use.GUEST)
    engine = database.engine(durable=False, pool_size=1)
    try:
        with engine.connect() as connection:
            if not inspect(connection).has_table("alembic_version"):
                return State(database.name, ["nothing was ever kept there"], None)
            troubles = [*_troubles(connection)]
            checkpoint = connection.execute(text("SELECT max(checkpoint) FROM progress")).scalar()
    except SQLAlchemyError as error:
        raise Unavailable(f"{database.name} could not be read: {error}") from error
    finally:
        engine.dispose()
        database.close()
    return State(database.name, troubles, checkpoint)


def other_revision(revision: str) -> str:
    """Say that the tables of a store are not those of this version."""
    return f"its tables are of revision {revision}, not {newest_revision()}: another version has written it"


def lost_rows(count: Callable[[str], int]) -> Iterator[str]:
    """Say what refers to rows that are not there; `count` returns the number that a query selects."""
    for what, rows in LOST.items():
        if lost := count(f"SELECT count(*) FROM {rows}"):
            yield f"{lost} rows of {what} refer to rows that are lost"


def _troubles(connection: Connection) -> Iterator[str]:
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    if revision != newest_revision():
        yield other_revision(revision)
    else:
        yield from lost_rows(lambda query: int(connection.execute(text(query)).scalar_one()))
