"""SQLite the way both the log and the store use it: WAL, one writer, readers that never block it."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from agenteval_collector.runtime.files import make_folder

BUSY_TIMEOUT_MS = 10_000

DATABASE_ERRORS = (SQLAlchemyError, sqlite3.Error)
"""What a database refuses with: the driver by itself, where a connection cannot be made."""
_DAMAGE = ("malformed", "not a database", "disk image", "corrupt")

T = TypeVar("T")


def open_database(
    path: Path, *, synchronous: Literal["FULL", "NORMAL"], pool_size: int = 4, page_size: int = 4096
) -> Engine:
    """Make an engine on the file at `path`, created with its folder if absent; readable by its owner only.

    `page_size` is that of a new file, in bytes: a file of large rows is written with less work in large pages.

    FULL: a commit is on disk when it returns. NORMAL: a commit survives the process, and the newest ones may be
    lost with the machine, never torn.
    """
    make_folder(path.parent)
    path.touch(mode=0o600)
    engine = create_engine(
        f"sqlite:///{path}",
        pool_size=pool_size,
        pool_use_lifo=True,  # The connection that was used last remembers the statements.
        connect_args={"check_same_thread": False, "cached_statements": 512},
        hide_parameters=True,  # Errors are logged, and told to clients; what is written is recorded content.
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.execute(f"PRAGMA page_size={page_size}")  # before WAL, which fixes it
        if not connection.execute("PRAGMA auto_vacuum").fetchone()[0]:  # Setting it again would wait for writers.
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # likewise; so that `give_back` makes the file smaller
        connection.execute("PRAGMA secure_delete=ON")  # Deleted rows are overwritten; `Scrubber` has the rest.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA foreign_keys=ON")

    return engine


def damage_in(error: Exception) -> str | None:
    """Return what an error says of a damaged file; None where it is about something else."""
    said = str(getattr(error, "orig", error))
    return said if any(sign in said for sign in _DAMAGE) else None


def damage_told(path: str, damage: str) -> str:
    """Say that a file is damaged, and what to do."""
    return f"{path} is damaged ({damage}): `agenteval check` says how, `agenteval repair` saves what can be read"


def used_bytes(engine: Engine) -> int:
    """Return the bytes of a database file that hold something."""
    with engine.connect() as connection:
        pages, free, size = _pages(connection)
    return (pages - free) * size


def give_back(engine: Engine, most: int) -> int:
    """Give at most `most` bytes of unused pages back to the disk; return how many. A tenth of the file stays free: what
    comes next needs it again."""
    with engine.connect() as connection:
        pages, free, size = _pages(connection)
        surplus = min(free - (pages - free) // 9, most // size)
        if surplus <= 0:
            return 0
        # As a script: a page goes with each row, and rows without columns are read to their end by that alone.
        driver: Any = connection.connection.driver_connection
        driver.executescript(f"PRAGMA incremental_vacuum({surplus})")
    return surplus * size


def _pages(connection: Connection) -> tuple[int, int, int]:
    """Return the pages of a database file, those of them that hold nothing, and the bytes of one."""
    pages, free, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_count", "freelist_count", "page_size")
    )
    return pages, free, size


def in_parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split a long list for queries: SQLite bounds the number of bound parameters."""
    for first in range(0, len(items), 500):
        yield items[first : first + 500]
