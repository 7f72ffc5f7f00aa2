"""SQLite as the log and the store use it: with a write-ahead log, one writer, and readers that never block it."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.util import LRUCache

from agenteval_collector.runtime.files import make_folder

BUSY_TIMEOUT_MS = 10_000
"""Milliseconds that a statement waits while another connection writes."""

DATABASE_ERRORS = (SQLAlchemyError, sqlite3.Error)
"""The errors of a database. The driver's own come if a connection cannot be made."""
_DAMAGE = ("malformed", "not a database", "disk image", "corrupt")

READABLE: Final[Callable[[bytes], str]] = methodcaller("decode", "utf-8", "replace")
"""The `text_factory` of a connection that reads bytes that are not UTF-8 as U+FFFD. By default the driver raises an
error that quotes the text, and a damaged byte in one old row would hold up whatever reads that row."""

STATEMENTS: Final = 512
"""The most compiled statements that are kept, and the most that a connection keeps: those that were used last."""

T = TypeVar("T")


class SharedDialect(SQLiteDialect_pysqlite):
    """The dialect of every file. They are equal, so that a statement that was compiled for one file is found for all:
    a process may have a file for each of many tenants."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


registry.register("sqlite.shared", __name__, SharedDialect.__name__)
_COMPILED: Final[LRUCache[Any, Any]] = LRUCache(STATEMENTS)


def open_database(
    path: Path, *, synchronous: Literal["FULL", "NORMAL"], pool_size: int = 4, page_size: int = 4096
) -> Engine:
    """Make an engine on the file at `path`. It is created with its folder if absent, readable by its owner only.

    `page_size` is that of a new file, in bytes: large rows are written with less work in large pages.

    `synchronous` FULL: a commit is on disk when it returns. NORMAL: a commit survives the end of the process; a power
    failure may lose the newest commits whole, and never tears one.
    """
    make_folder(path.parent)
    path.touch(mode=0o600)
    engine = create_engine(
        f"sqlite+shared:///{path}",
        pool_size=pool_size,
        pool_use_lifo=True,  # The connection that was used last remembers the statements.
        connect_args={"check_same_thread": False, "cached_statements": STATEMENTS},
        execution_options={"compiled_cache": _COMPILED},
        hide_parameters=True,  # Errors are logged and sent to clients; parameters are recorded content.
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.text_factory = READABLE
        connection.execute(f"PRAGMA page_size={page_size}")  # Before WAL, which fixes the size.
        if not connection.execute("PRAGMA auto_vacuum").fetchone()[0]:  # Setting it again would wait for writers.
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # Before WAL, too. `give_back` needs it.
        connection.execute("PRAGMA secure_delete=ON")  # `DatabaseFile.vacuum` does the rest.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA foreign_keys=ON")

    return engine


def damage_in(error: Exception) -> str | None:
    """Return the message of an error about a damaged file; None for other errors."""
    message = str(getattr(error, "orig", error))
    return message if any(sign in message for sign in _DAMAGE) else None


def damage_told(path: str, damage: str) -> str:
    """Return a sentence that says that a file is damaged, and what to do."""
    return f"{path} is damaged ({damage}): `agenteval check` says how, `agenteval repair` saves what can be read"


def in_parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split a long list for queries: SQLite limits the number of bound parameters."""
    for first in range(0, len(items), 500):
        yield items[first : first + 500]
