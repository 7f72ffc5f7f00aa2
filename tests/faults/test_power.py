"""What must be on disk when it is told, and is not looked for by the history checker."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from agenteval_collector.app.storage import LOG, REDACTION_KEY, locked, stored_redaction
from agenteval_collector.config.settings import Settings
from agenteval_collector.ingest.request_file import NewRequest, RequestFile
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.files import make_folder
from agenteval_collector.stores.store import Store

from tests.faults.disk import Disk
from tests.support.clock import ManualClock

pytestmark = pytest.mark.slow


def test_a_new_store_has_its_tables_after_a_power_failure(disk: Disk) -> None:
    file = disk.folder / "a" / "b" / "agenteval.db"
    store = Store(file, ManualClock(), events_of=no_events)
    disk.lose_power()
    store.shutdown()
    disk.repair()
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT count(*) FROM traces").fetchone() == (0,)


def test_what_the_log_may_forget_is_known_after_a_power_failure(disk: Disk) -> None:
    file = disk.folder / "agenteval.db"
    store = Store(file, ManualClock(), events_of=no_events)
    store.save_checkpoint(7)
    disk.lose_power()
    store.shutdown()
    disk.repair()
    store = Store(file, ManualClock(), events_of=no_events)
    assert store.checkpoint() == 7
    store.shutdown()


def test_the_key_of_placeholders_is_there_after_a_power_failure(disk: Disk) -> None:
    settings = Settings.model_validate({"redaction": {"store": "all"}})
    stored_redaction(settings, disk.folder)
    disk.lose_power()
    disk.repair()
    assert (disk.folder / REDACTION_KEY).read_bytes()


def test_a_new_folder_is_there_after_a_power_failure(disk: Disk) -> None:
    make_folder(disk.folder / "a" / "b")
    disk.lose_power()
    disk.repair()
    assert (disk.folder / "a" / "b").is_dir()


def test_what_is_written_to_a_copy_is_there_after_a_power_failure(disk: Disk, tmp_path: Path) -> None:
    RequestFile(tmp_path / LOG).shutdown()
    shutil.copy(tmp_path / LOG, disk.folder / LOG)
    lock = locked(disk.folder)
    log = RequestFile(disk.folder / LOG)
    log.commit([NewRequest("default", Signal.TRACES, 1, b"body")])
    disk.lose_power()
    log.shutdown()
    lock.close()
    disk.repair()
    log = RequestFile(disk.folder / LOG)
    assert [each.body for each in log.read(0)] == [b"body"]
    log.shutdown()
