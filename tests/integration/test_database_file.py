"""Nothing of a deleted row is left in a file, whatever was moved from page to page before."""

import random
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from agenteval_collector.config.settings import RetentionConfig
from agenteval_collector.model.deletions import DeletionFilter
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.database import open_database
from agenteval_collector.runtime.database_file import DatabaseFile
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.stores.retention import VACUUMED_WITHIN, RetentionStage
from agenteval_collector.stores.retention_ports import DoomedTraces
from agenteval_collector.stores.store import Store
from sqlalchemy import Engine

from tests.support.assembling import Counting
from tests.support.clock import ManualClock

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


def vacuum(file: DatabaseFile) -> None:
    """Vacuum the file. A step that somebody is in the way of is tried again, as the collector does."""
    for step in (file.vacuum, file.empty_log):
        done = False
        while not done:
            with suppress(Unavailable):
                step()
                done = True


def make_tables(engine: Engine) -> None:
    with engine.begin() as connection:
        for statement in TABLES:
            connection.exec_driver_sql(statement)


def test_nothing_of_deleted_rows_is_left_and_all_others_are_whole(engine: Engine, tmp_path: Path) -> None:
    make_tables(engine)
    alive = churn(engine, 6_000)
    vacuum(DatabaseFile(tmp_path / "a.db", engine))
    assert words_in(tmp_path) == set(alive.values())
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        rows = connection.exec_driver_sql("SELECT k, body FROM words").all()
    assert {row.k: row.body.split()[0] for row in rows} == alive


def test_others_write_between_vacuums(engine: Engine, tmp_path: Path) -> None:
    make_tables(engine)
    file = DatabaseFile(tmp_path / "a.db", engine)
    churn(engine, 2000)
    writer = threading.Thread(target=lambda: [churn(engine, 50, seed) for seed in range(2, 22)])
    writer.start()
    while writer.is_alive():
        vacuum(file)
    writer.join()
    vacuum(file)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        left = {row.body.split()[0] for row in connection.exec_driver_sql("SELECT body FROM words")}
    assert words_in(tmp_path) == left


def test_the_log_of_a_file_that_somebody_reads_cannot_be_emptied(engine: Engine, tmp_path: Path) -> None:
    make_tables(engine)
    file = DatabaseFile(tmp_path / "a.db", engine)
    with engine.connect() as reader:
        reader.exec_driver_sql("BEGIN")
        reader.exec_driver_sql("SELECT count(*) FROM words").one()
        churn(engine, 50)
        with pytest.raises(Unavailable, match="somebody reads it"):
            file.empty_log()
    file.empty_log()


def test_a_file_is_quiet_if_nobody_wrote_since_the_last_look(engine: Engine, tmp_path: Path) -> None:
    make_tables(engine)
    file = DatabaseFile(tmp_path / "a.db", engine)
    assert not file.is_quiet()
    assert file.is_quiet()
    churn(engine, 50)
    assert not file.is_quiet()
    assert file.is_quiet()


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


class NothingElse:
    """An erasure with nothing to erase."""

    def erase(self, deletions: Sequence[DoomedTraces]) -> Sequence[str]:
        return ()

    def erase_from_log(self, deletion_id: str, start: int) -> tuple[int | None, Mapping[str, int]]:
        return None, {}

    def mark_erased(self, deletion_id: str) -> None: ...

    def erase_older(self, before: int) -> bool:
        return False

    def trim_log(self, received_before: int) -> bool:
        return False


class LargeFile(DatabaseFile):
    """A file that counts as large, and notes when it is vacuumed."""

    vacuumed = 0

    @property
    def is_small(self) -> bool:
        return False

    def vacuum(self) -> None:
        super().vacuum()
        self.vacuumed += 1


@pytest.mark.parametrize("busy", [False, True], ids=["quiet", "never quiet"])
def test_a_large_file_is_vacuumed_once_it_is_quiet_or_after_a_day(tmp_path: Path, busy: bool) -> None:
    clock = ManualClock()
    store = Store(tmp_path / "agenteval.db", clock, events_of=no_events)
    engine = open_database(tmp_path / "other.db", synchronous="NORMAL")
    make_tables(engine)
    file = LargeFile(tmp_path / "other.db", engine)
    stage = RetentionStage(
        store.deletions, NothingElse(), (file,), RetentionConfig(), clock, Counting(),
        new_id=lambda: "d", tell=lambda: None, is_on_duty=lambda: True,
    )  # fmt: skip
    stage.delete(DeletionFilter(session_id="s"), None)
    looks = []
    for seed in range(3):
        churn(engine, 50, seed)
        stage.carry_out()
        looks.append(file.vacuumed)
    assert looks == [0, 0, 0], "somebody wrote before each look"
    if busy:
        clock.advance(VACUUMED_WITHIN)
        churn(engine, 50, 3)
    stage.carry_out()
    assert file.vacuumed == 1
    assert stage.receipt("d").done_at is not None
    stage.carry_out()
    assert file.vacuumed == 1
    store.shutdown()
    engine.dispose()
