"""Copy what can still be read of a damaged database file."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

CHUNK: Final = 1024
"""Row ids that are read together, as long as none of them is damaged."""


class Salvaged(NamedTuple):
    """How many rows of a table were copied; `whole`: the file does not say that there were others."""

    rows: int
    whole: bool


def salvage(damaged: sqlite3.Connection, target: sqlite3.Connection) -> dict[str, Salvaged]:
    """Copy the rows of each table that `target` has, with the columns that both have. A row that is there already
    stays. Returns what was copied by table."""
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


def _by_rowid(damaged: sqlite3.Connection, name: str, listed: str) -> Iterator[Sequence[Any] | None]:
    """Yield rows, and None for each row id at which there may be one that cannot be read."""
    # Without an index: one that is damaged must not hide what the table has.
    ends = f'SELECT min(rowid), max(rowid) FROM "{name}" NOT INDEXED'
    try:
        first, last = damaged.execute(ends).fetchone()
    except sqlite3.DatabaseError:
        yield None
        yield from _until_damage(damaged, f'SELECT {listed} FROM "{name}" NOT INDEXED ORDER BY rowid')
        return
    if first is None:
        return
    query = f'SELECT {listed} FROM "{name}" NOT INDEXED WHERE rowid BETWEEN ? AND ? ORDER BY rowid'
    ranges = [(start, min(start + CHUNK - 1, last)) for start in range(last - last % CHUNK, first - CHUNK, -CHUNK)]
    while ranges:
        start, end = ranges.pop()
        try:
            yield damaged.execute(query, (start, end)).fetchall()
        except sqlite3.DatabaseError:
            if start >= end:
                yield None
                continue
            middle = (start + end) // 2
            ranges += [(middle + 1, end), (start, middle)]


def _by_key(damaged: sqlite3.Connection, name: str, listed: str) -> Iterator[Sequence[Any] | None]:
    """Yield the rows up to the first one that cannot be read, from both ends; None where there is one."""
    key = ", ".join(f'"{row[1]}"' for row in damaged.execute(f'PRAGMA table_info("{name}")') if row[5])
    for order in (key, ", ".join(f"{column} DESC" for column in key.split(", "))):
        broke_off = False
        for part in _until_damage(damaged, f'SELECT {listed} FROM "{name}" ORDER BY {order}'):
            broke_off |= part is None
            yield part
        if not broke_off:
            return


def _until_damage(damaged: sqlite3.Connection, query: str) -> Iterator[Sequence[Any] | None]:
    try:
        for row in damaged.execute(query):
            yield [row]
    except sqlite3.DatabaseError:
        yield None
