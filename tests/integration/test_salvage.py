"""Of a damaged file every row is copied that can still be read by its id, whichever page is damaged."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from agenteval_collector.runtime.salvage import salvage

ROWS = 400
LEAF = 13
"""The first byte of a page of SQLite that has rows of a table."""


@contextmanager
def database(path: Path, *, autoincrement: bool) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f"CREATE TABLE requests (id INTEGER PRIMARY KEY {'AUTOINCREMENT' if autoincrement else ''}, body BLOB)"
        )
        yield connection


def readable(path: Path, ids: list[int]) -> set[int]:
    """The rows that can be read, each by itself."""
    found = set()
    with closing(sqlite3.connect(path)) as connection:
        for number in ids:
            try:
                found |= {row[0] for row in connection.execute("SELECT id, body FROM requests WHERE id = ?", (number,))}
            except sqlite3.DatabaseError:
                continue
    return found


@pytest.mark.parametrize("autoincrement", [True, False], ids=["counted", "not counted"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_a_damaged_page_costs_the_rows_on_it(tmp_path: Path, share: float, autoincrement: bool) -> None:
    draw = random.Random(f"{share} {autoincrement}")
    ids = sorted(draw.sample(range(3, 4 * ROWS), ROWS))
    path = tmp_path / "damaged.db"
    with database(path, autoincrement=autoincrement) as connection:
        rows = ((each, draw.randbytes(draw.choice([50, 500, 2000, 6000]))) for each in ids)
        connection.executemany("INSERT INTO requests VALUES (?, ?)", rows)
    content = path.read_bytes()
    leaves = [number for number in range(4, len(content) // 4096) if content[number * 4096] == LEAF]
    number = leaves[round(share * (len(leaves) - 1))]
    with path.open("r+b") as file:
        file.seek(number * 4096)
        file.write(draw.randbytes(4096))
    known = readable(path, ids)
    assert len(known) < ROWS
    with (
        closing(sqlite3.connect(path)) as damaged,
        database(tmp_path / "new.db", autoincrement=autoincrement) as target,
    ):
        saved = salvage(damaged, target)["requests"]
        assert {row[0] for row in target.execute("SELECT id FROM requests")} >= known
    assert saved.rows >= len(known)
    assert not saved.whole
