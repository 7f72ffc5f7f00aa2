"""Copy what can still be read of a damaged database file."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

CHUNK: Final = 1024
"""Row ids that are read together, as long as none of them is damaged."""

GIVEN_UP: Final = 64
"""Chunks in a row without a readable row, after which a table with a damaged end is taken to be over."""


class Salvaged(NamedTuple):
    """The number of rows that were copied of a table. `whole`: nothing in the file hints at further rows."""

    rows: int
    whole: bool


def salvage(damaged: sqlite3.Connection, target: sqlite3.Connection) -> dict[str, Salvaged]:
    """Copy the rows of each table of `target`, with the columns that both files have. Rows that `target` has already
    stay. Returns what was copied, by table."""
    copied = {}
    for name, without_rowid in tables(target):
        try:
            theirs = {row[1] for row in damaged.execute(f'PRAGMA table_info("{name}")')}
        except sqlite3.DatabaseError:
            theirs = set()
        columns = [row[1] for row in target.execute(f'PRAGMA table_info("{name}")') if row[1] in theirs]
        rows, whole = 0, bool(columns)
        listed = ", ".join(f'"{column}"' for column in columns)
        insert = f'INSERT OR IGNORE INTO "{name}" ({listed}) VALUES ({", ".join("?" * len(columns))})'
        read = _by_key if without_rowid else _by_rowid
        for part in read(damaged, name, listed) if columns else ():
            if part is None:
                whole = False
            else:
                rows += target.executemany(insert, part).rowcount
        copied[name] = Salvaged(rows, whole)
    return copied


def tables(connection: sqlite3.Connection) -> list[tuple[str, bool]]:
    """Return the tables that hold rows of their own, each with whether it has no row ids. Raises sqlite3.Error."""
    listed = connection.execute("PRAGMA table_list").fetchall()
    return [
        (name, bool(without_rowid))
        for _, name, kind, _, without_rowid, _ in listed
        if kind == "table" and not name.startswith("sqlite_") and name != "alembic_version"
    ]


def unreadable_texts(connection: sqlite3.Connection) -> Iterator[tuple[str, int]]:
    """Yield the tables in which rows have texts that are not UTF-8, each with how many rows have. Reads every text.
    Raises sqlite3.Error."""
    for name, _ in tables(connection):
        columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')]
        texts = ", ".join(
            f'CASE typeof("{column}") WHEN \'text\' THEN CAST("{column}" AS BLOB) END' for column in columns
        )
        rows = connection.execute(f'SELECT {texts} FROM "{name}"')
        if count := sum(not all(map(_is_readable, row)) for row in rows):
            yield name, count


def _is_readable(text: bytes | None) -> bool:
    try:
        return text is None or text.decode() is not None
    except UnicodeDecodeError:
        return False


def _by_rowid(damaged: sqlite3.Connection, name: str, listed: str) -> Iterator[Sequence[Any] | None]:
    """Yield rows, and None for each row id at which there may be one that cannot be read."""
    # Without an index: a damaged one must not hide rows of the table.
    query = f'SELECT {listed} FROM "{name}" NOT INDEXED WHERE rowid'
    first, last = _end(damaged, name, "min"), _end(damaged, name, "max")
    if first is None:
        return
    start, unread = first - first % CHUNK, 0
    while start <= last if last is not None else unread < GIVEN_UP:
        rows = 0
        for part in _halved(damaged, query, start, start + CHUNK - 1):
            rows += len(part or ())
            yield part
        unread = 0 if rows else unread + 1
        start += CHUNK


def _end(damaged: sqlite3.Connection, name: str, which: str) -> int | None:
    """Return the first (`min`) or last (`max`) row id of a table, and None if the table is empty.

    If it cannot be read, return 1 for the first, and for the last the id that SQLite has noted, or None.
    """
    with suppress(sqlite3.DatabaseError):
        [row_id] = damaged.execute(f'SELECT {which}(rowid) FROM "{name}" NOT INDEXED').fetchone()
        return None if row_id is None else int(row_id)
    if which == "min":
        return 1
    with suppress(sqlite3.DatabaseError):
        if row := damaged.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (name,)).fetchone():
            return int(row[0])
    return None


def _halved(damaged: sqlite3.Connection, query: str, first: int, last: int) -> Iterator[Sequence[Any] | None]:
    """Yield the rows between two row ids. A range with a damaged row is halved until that row stands alone."""
    ranges = [(first, last)]
    while ranges:
        start, end = ranges.pop()
        try:
            if start == end:  # A search for one id does not touch the row behind it, which may be damaged.
                yield damaged.execute(f"{query} = ?", (start,)).fetchall()
            else:
                yield damaged.execute(f"{query} BETWEEN ? AND ? ORDER BY rowid", (start, end)).fetchall()
        except sqlite3.DatabaseError:
            if start == end:
                yield None
                continue
            middle = (start + end) // 2
            ranges += [(middle + 1, end), (start, middle)]


def _by_key(damaged: sqlite3.Connection, name: str, listed: str) -> Iterator[Sequence[Any] | None]:
    """Yield the rows from both ends, each up to the first one that cannot be read; None for that one."""
    key = ", ".join(f'"{row[1]}"' for row in damaged.execute(f'PRAGMA table_info("{name}")') if row[5])
    for order in (key, ", ".join(f"{column} DESC" for column in key.split(", "))):
        broke_off = False
        for rows in _until_damage(damaged, f'SELECT {listed} FROM "{name}" ORDER BY {order}'):
            broke_off |= rows is None
            yield rows
        if not broke_off:
            return


def _until_damage(damaged: sqlite3.Connection, query: str) -> Iterator[Sequence[Any] | None]:
    try:
        for row in damaged.execute(query):
            yield [row]
    except sqlite3.DatabaseError:
        yield None
