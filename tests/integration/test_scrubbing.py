"""Nothing of a deleted row is left in a file, whatever was moved from page to page before."""

import random
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from agenteval_collector.runtime.database import open_database
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.runtime.scrubbing import DatabaseFile
from sqlalchemy import Engine

TABLES = (
    "CREATE TABLE words(tenant TEXT, k TEXT, body TEXT, PRIMARY KEY(tenant, k))",
    "CREATE INDEX by_body ON words(tenant, body)",
    "CREATE TABLE pairs(k TEXT, body TEXT, PRIMARY KEY(k, body)) WITHOUT ROWID",
)


@pytest.fixture(params=[4096, 32768])
def engine(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    made = open_database(tmp_path / "a.db", synchronous="NORMAL", page_size=request.param)
    yield made
    made.dispose()


def churn(engine: Engine, steps: int, seed: int = 1) -> dict[str, str]:
    """Write rows of all sizes, and delete most of them; returns the words that are left, by their keys."""
    pick = random.Random(seed)
    alive: dict[str, str] = {}
    with engine.begin() as connection:
        for step in range(steps):
            if pick.random() < 0.6 or not alive:
                key, word = f"{pick.getrandbits(64):016x}", f"SECRET{step:08d}X"
                alive[key] = word
                body = (word + " ") * pick.choice([1, 2, 3, 10, 40, 200, 900])
                connection.exec_driver_sql("INSERT INTO words VALUES ('d', ?, ?)", (key, body))
                connection.exec_driver_sql("INSERT INTO pairs VALUES (?, ?)", (key, word * pick.choice([1, 2, 8])))
            else:
                key = next(iter(alive))
                del alive[key]
                connection.exec_driver_sql("DELETE FROM words WHERE tenant = 'd' AND k = ?", (key,))
                connection.exec_driver_sql("DELETE FROM pairs WHERE k = ?", (key,))
    return alive


def words_in(folder: Path) -> set[str]:
    found = (re.findall(rb"SECRET\d{8}X", file.read_bytes()) for file in folder.iterdir())
    return {word.decode() for words in found for word in words}


def scrub(scrubber: DatabaseFile) -> None:
    """Scrub the whole file; a slice that somebody is in the way of is tried again, as the collector does."""
    at: int | None = 0
    while at is not None:
        with suppress(Unavailable):
            at = scrubber.scrub(at)


def make_tables(engine: Engine) -> None:
    with engine.begin() as connection:
        for statement in TABLES:
            connection.exec_driver_sql(statement)


def test_nothing_of_deleted_rows_is_left_and_all_others_are_whole(engine: Engine, tmp_path: Path) -> None:
    make_tables(engine)
    scrubber = DatabaseFile(tmp_path / "a.db", engine)
    alive = churn(engine, 6_000)
    scrub(scrubber)
    assert words_in(tmp_path) == set(alive.values())
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        rows = connection.exec_driver_sql("SELECT k, body FROM words").all()
    assert {row.k: row.body.split()[0] for row in rows} == alive
    engine.dispose()
    scrubber.close()


def test_others_write_while_it_scrubs(engine: Engine, tmp_path: Path) -> None:
    make_tables(engine)
    scrubber = DatabaseFile(tmp_path / "a.db", engine)
    churn(engine, 2000)
    writer = threading.Thread(target=lambda: [churn(engine, 50, seed) for seed in range(2, 22)])
    writer.start()
    while writer.is_alive():
        scrub(scrubber)
    writer.join()
    scrub(scrubber)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        left = {row.body.split()[0] for row in connection.exec_driver_sql("SELECT body FROM words")}
    assert words_in(tmp_path) == left
    engine.dispose()
    scrubber.close()


def test_it_leaves_a_file_alone_that_somebody_reads_as_it_was(engine: Engine, tmp_path: Path) -> None:
    make_tables(engine)
    scrubber = DatabaseFile(tmp_path / "a.db", engine)
    with engine.connect() as reader:
        reader.exec_driver_sql("BEGIN")
        reader.exec_driver_sql("SELECT count(*) FROM words").one()
        churn(engine, 50)
        with pytest.raises(Unavailable, match="somebody reads it"):
            scrubber.scrub()
    scrub(scrubber)
    engine.dispose()
    scrubber.close()


def test_unused_pages_are_given_back_but_for_a_tenth(engine: Engine, tmp_path: Path) -> None:
    make_tables(engine)
    churn(engine, 4000)
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM words")
    file = DatabaseFile(tmp_path / "a.db", engine)
    assert 0 < file.give_back(1_000_000) <= 1_000_000
    assert file.give_back(10**9) > 0
    assert file.give_back(10**9) == 0
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    assert (tmp_path / "a.db").stat().st_size < 1.2 * file.used_bytes
