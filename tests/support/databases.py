"""The databases that stores are tried on, and what happens to their files from outside."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from agenteval_collector.stores.engines.ports import Database, Use

from tests.support.postgres import Server


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else can write to the database meanwhile."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


class _Chosen:
    """The server that stores are on at the moment; none: SQLite."""

    server: Server | None = None


@contextmanager
def stores_on(server: Server) -> Iterator[None]:
    """Every store is on this server meanwhile, and gone afterwards."""
    _Chosen.server = server
    try:
        yield
    finally:
        _Chosen.server = None
        for [schema] in server.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'agenteval%'"):
            server.execute(f'DROP SCHEMA "{schema}" CASCADE')


def store_settings() -> dict[str, str]:
    """The settings by which a collector's stores are where all others are."""
    return {} if _Chosen.server is None else {"url": _Chosen.server.url}


def database_in(folder: Path, name: str = "agenteval.db") -> Path | Database:
    """The database of that name in a folder: a file, or the same schema each time on the server that is chosen."""
    if _Chosen.server is None:
        return folder / name
    from agenteval_collector.stores.engines.postgresql import PostgresSchema  # noqa: PLC0415 - an extra

    tenant = hashlib.sha256(str(folder / name).encode()).hexdigest()[:32]
    return PostgresSchema(_Chosen.server.url, tenant, use=Use.GUEST)
