"""Backups of a collector at work, and files that are damaged: what is said of them, and what is saved."""

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.app.collector import Collector
from agenteval_collector.app.data_files import check_data
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.runtime.errors import PermanentError
from typer.testing import CliRunner, Result

from tests.support.otlp import trace_id, traces, turn
from tests.support.running_collector import RunningCollector, settings


def agenteval(*arguments: object) -> Result:
    return CliRunner().invoke(command_line(), [str(each) for each in arguments], env={"COLUMNS": "200"})


def fill(data_dir: Path, count: int = 12) -> None:
    with RunningCollector(data_dir) as collector:
        for number in range(1, count + 1):
            collector.send(traces(turn(number, f"question {number} " * 40, "yes", session=f"s{number}")))
        for number in range(1, count + 1):
            collector.scored(trace_id(number).hex())


def damage(file: Path, where: str) -> None:
    """Overwrite the pages of a table, or the beginning of the file."""
    if where == "beginning":
        pages = [1]
    else:
        with closing(sqlite3.connect(file)) as connection:
            [root] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (where,)).fetchone()
            [size] = connection.execute("PRAGMA page_size").fetchone()
        page = file.read_bytes()[(root - 1) * size : root * size]
        # An interior page ends with its rightmost child: one leaf is lost, and the rest can be read.
        pages = [int.from_bytes(page[8:12], "big")] if page[0] == 5 else [root]
    size = int.from_bytes(file.read_bytes()[16:18], "big")
    with file.open("r+b") as opened:
        for number in pages:
            opened.seek((number - 1) * size)
            opened.write(b"\xff" * size)


def test_a_backup_under_load_holds_all_that_was_acknowledged(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    with RunningCollector(tmp_path / "data") as collector:
        stop = threading.Event()

        def send() -> None:
            for number in range(1, 3000):
                if stop.is_set():
                    return
                collector.send(traces(turn(number, "hi " * 200, "ho", session=f"s{number}")))
                acknowledged.append(number)

        sender = threading.Thread(target=send)
        sender.start()
        while len(acknowledged) < 20:
            collector.get("/readyz")
        until = list(acknowledged)
        done = agenteval("backup", tmp_path / "copy", "--data-dir", tmp_path / "data")
        stop.set()
        sender.join()
        assert (done.exit_code, done.stderr) == (0, "")
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "copy").iterdir()} == {0o600}
    assert check_data(tmp_path / "copy") == []
    with RunningCollector(tmp_path / "copy") as restored:
        for number in until:
            assert restored.scored(trace_id(number).hex())["output"] == "ho"


def test_a_backup_is_not_mixed_with_other_files(tmp_path: Path) -> None:
    fill(tmp_path / "data", 1)
    refused = agenteval("backup", tmp_path / "data", "--data-dir", tmp_path / "data")
    assert (refused.exit_code, "is not empty" in refused.stderr) == (1, True)


def test_a_folder_without_files_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    for command in (["backup", tmp_path / "copy"], ["check"], ["repair"]):
        refused = agenteval(*command, "--data-dir", tmp_path / "nowhere")
        assert refused.exit_code == 1
        assert refused.output == (
            f"agenteval: no collector has kept anything in {tmp_path}/nowhere; give --data-dir, or --config\n"
        )
    assert not list(tmp_path.iterdir())


def test_whole_files_are_found_whole_while_a_collector_runs(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(turn(1, "hi", "ho", session="s")))
        collector.scored(trace_id(1).hex())
        assert agenteval("check", "--data-dir", tmp_path).stdout == "Nothing is wrong.\n"
        refused = agenteval("repair", "--data-dir", tmp_path)
        assert refused.exit_code == 1
        assert refused.stderr == f"agenteval: data_dir: a collector uses {tmp_path}; stop it first\n"
    assert json.loads(agenteval("repair", "--data-dir", tmp_path, "--json").stdout) == {"repairs": []}
    assert json.loads(agenteval("config", "--data-dir", tmp_path, "--json").stdout)["data_dir"] == str(tmp_path)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("agenteval.db", "beginning"),
        ("agenteval.db", "traces"),
        ("agenteval.db", "trace_views"),
        ("agenteval.db", "outcomes"),
        ("agenteval.db", "progress"),
    ],
)
def test_a_damaged_store_is_made_anew_and_what_is_lost_is_scored_again(tmp_path: Path, name: str, where: str) -> None:
    fill(tmp_path)
    damage(tmp_path / name, where)
    found = agenteval("check", "--data-dir", tmp_path, "--json")
    assert found.exit_code == 1
    assert {each["file"] for each in json.loads(found.stdout)["troubles"]} >= {name}
    if where == "beginning":
        with pytest.raises(PermanentError, match=r"agenteval\.db is damaged .*`agenteval repair` saves"):
            Collector(settings(tmp_path))
    saved = agenteval("repair", "--data-dir", tmp_path)
    assert (saved.exit_code, f"{name}.damaged-1" in saved.stdout) == (0, True), saved.stderr
    assert saved.stdout.endswith("The next start scores again what log.db still has of lost traces.\n")
    assert check_data(tmp_path) == []
    with RunningCollector(tmp_path) as collector:
        for number in range(1, 13):
            assert collector.scored(trace_id(number).hex())["output"] == "yes"
        collector.send(traces(turn(99, "hi", "ho", session="new")))
        collector.scored(trace_id(99).hex())


@pytest.mark.parametrize("where", ["beginning", "requests"])
def test_a_damaged_log_costs_its_requests_and_no_score(tmp_path: Path, where: str) -> None:
    fill(tmp_path)
    damage(tmp_path / "log.db", where)
    assert agenteval("check", "--data-dir", tmp_path).exit_code == 1
    if where == "beginning":
        with pytest.raises(PermanentError, match=r"log\.db is damaged"):
            Collector(settings(tmp_path))
    assert agenteval("repair", "--data-dir", tmp_path).exit_code == 0
    assert check_data(tmp_path) == []
    with RunningCollector(tmp_path) as collector:
        assert collector.scored(trace_id(1).hex())["output"] == "yes"
        # Its offset is not one that the store knows for another trace.
        collector.send(traces(turn(99, "hi", "ho", session="new")))
        assert collector.scored(trace_id(99).hex())["output"] == "ho"


def test_tables_of_another_version_are_told_as_such_and_left_as_they_are(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    with closing(sqlite3.connect(tmp_path / "agenteval.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(PermanentError, match="written by another version"):
        Collector(settings(tmp_path))
    kept = {file: file.read_bytes() for file in tmp_path.iterdir()}
    for command in ("check", "repair"):
        refused = agenteval(command, "--data-dir", tmp_path)
        assert refused.exit_code == 1
        assert refused.output == (
            f"agenteval: {tmp_path}/agenteval.db: its tables are of revision 0000, not 0001: another version has "
            "written it; check and repair it with that version\n"
        )
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == kept


def test_each_tenant_is_backed_up_with_its_key_checked_and_repaired(tmp_path: Path) -> None:
    own = tmp_path / "data" / "tenants" / "shop"
    keys = [{"name": "shop", "key": "secret", "tenant": "shop"}]
    options: dict[str, Any] = {"server": {"keys": keys}, "redaction": {"store": "secrets"}}
    Collector(settings(tmp_path / "data", **options)).shutdown()
    assert agenteval("backup", tmp_path / "copy", "--data-dir", tmp_path / "data").exit_code == 0
    copied = tmp_path / "copy" / "tenants" / "shop"
    assert (copied / "redaction.key").read_bytes() == (own / "redaction.key").read_bytes()
    assert {file.name for file in copied.iterdir()} >= {"agenteval.db", "log.db"}
    assert check_data(tmp_path / "data") == []
    for place, file in ((tmp_path / "data", own), (tmp_path / "copy", copied)):
        damage(file / "log.db", "beginning")
        assert {trouble.file for trouble in check_data(place)} == {"tenants/shop/log.db"}
    assert agenteval("repair", "--data-dir", tmp_path / "data").exit_code == 0
    assert check_data(tmp_path / "data") == []
    Collector(settings(tmp_path / "data", **options)).shutdown()


@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_file_that_may_not_be_used_is_not_called_damaged(tmp_path: Path, command: str) -> None:
    fill(tmp_path, 1)
    (tmp_path / "log.db").rename(tmp_path / "kept")
    # As with a file without permission, which root does not know, SQLite cannot open it.
    (tmp_path / "log.db").mkdir()
    told = agenteval(command, "--data-dir", tmp_path)
    assert told.exit_code == 1
    assert f"{tmp_path}/log.db: unable to open database file: let this user read and write it" in told.output
    assert "repair" not in told.output
    assert not list(tmp_path.glob("*damaged*"))


def test_a_folder_that_cannot_be_looked_into_is_one_sentence(tmp_path: Path) -> None:
    told = agenteval("check", "--data-dir", tmp_path / ("x" * 300))
    assert told.exit_code == 1
    assert told.output.startswith("agenteval: [Errno 36] File name too long")


@pytest.mark.parametrize("name", ["agenteval.db", "log.db"])
def test_a_missing_file_is_told_as_such_and_made_anew(tmp_path: Path, name: str) -> None:
    fill(tmp_path)
    (tmp_path / name).unlink()
    assert f"{name}: it is missing" in agenteval("check", "--data-dir", tmp_path).output
    repaired = agenteval("repair", "--data-dir", tmp_path)
    assert repaired.exit_code == 0
    assert f"{name} was missing. A new one is there" in repaired.output
    assert agenteval("check", "--data-dir", tmp_path).output == "Nothing is wrong.\n"
    with RunningCollector(tmp_path) as collector:
        collector.scored(trace_id(1).hex())


def test_a_new_log_gives_no_offset_that_the_store_knows(tmp_path: Path, caplog: Any) -> None:
    fill(tmp_path)
    with closing(sqlite3.connect(tmp_path / "agenteval.db")) as store, store:
        store.execute("INSERT OR REPLACE INTO progress (tenant, checkpoint) VALUES ('default', 13)")
    (tmp_path / "log.db").unlink()
    with RunningCollector(tmp_path) as collector:
        assert "log.db is a new or an older file: it lacks requests up to 13" in caplog.text
        collector.send(traces(turn(99, "question", "yes", session="s99")))
        collector.scored(trace_id(99).hex())
        assert collector.service.pipeline.base.storage.requests.last_offset() == 14
    assert agenteval("check", "--data-dir", tmp_path).output == "Nothing is wrong.\n"


def test_an_emptied_file_is_not_begun_anew_in_silence(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "agenteval.db").write_bytes(b"")
    with pytest.raises(PermanentError, match=r"agenteval\.db is empty, and other data is there: restore it"):
        Collector(settings(tmp_path))


def test_a_body_that_is_not_what_was_written_is_named_and_passed_over(tmp_path: Path, caplog: Any) -> None:
    fill(tmp_path, 3)
    with closing(sqlite3.connect(tmp_path / "log.db")) as log, log:
        [[first, body]] = log.execute('SELECT "offset", body FROM requests ORDER BY "offset" LIMIT 1')
        log.execute('UPDATE requests SET body = ? WHERE "offset" = ?', (body[:9] + b"?!" + body[11:], first))
    with closing(sqlite3.connect(tmp_path / "agenteval.db")) as store, store:
        store.execute("UPDATE progress SET checkpoint = 0")
    assert [each.what for each in check_data(tmp_path)] == [
        f"request {first} is not what was written; what it holds is lost"
    ]
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(turn(99, "hi", "ho", session="new")))
        collector.scored(trace_id(99).hex())
    assert f"request {first} of the log is damaged and is passed over" in caplog.text
    assert not any(record.exc_info for record in caplog.records)
    assert agenteval("repair", "--data-dir", tmp_path).exit_code == 0
    assert check_data(tmp_path) == []


def damage_a_text(file: Path) -> list[str]:
    """Replace a letter by a byte that is no UTF-8, in one row of each column with texts. Returns the tables."""
    damaged = set()
    with closing(sqlite3.connect(file)) as store, store:
        tables = [row[1] for row in store.execute("PRAGMA table_list") if row[2] == "table" and not row[4]]
        for table in tables:
            if table.startswith(("sqlite_", "said_index", "alembic_version")):
                continue
            for column in [row[1] for row in store.execute(f'PRAGMA table_info("{table}")') if row[5] == 0]:
                if column == "tenant":
                    continue
                text = f'SELECT rowid, "{column}" FROM "{table}" WHERE typeof("{column}") = \'text\''
                for rowid, value in store.execute(f"{text} ORDER BY rowid LIMIT 1").fetchall():
                    raw = value.encode()
                    at = next((at for at, byte in enumerate(raw) if chr(byte).isalpha()), None)
                    if at is not None:
                        changed = raw[:at] + b"\xff" + raw[at + 1 :]
                        store.execute(
                            f'UPDATE "{table}" SET "{column}" = CAST(? AS TEXT) WHERE rowid = ?', (changed, rowid)
                        )
                        damaged.add(table)
    return sorted(damaged)


@pytest.mark.sqlite
def test_a_byte_that_is_no_utf_8_holds_nothing_up_and_is_found_and_repaired(tmp_path: Path) -> None:
    fill(tmp_path)
    damaged = damage_a_text(tmp_path / "agenteval.db")
    assert {"traces", "trace_views", "outcomes", "sessions"} <= set(damaged)
    with RunningCollector(tmp_path) as collector:
        for number in range(1, 13):
            collector.send(traces(turn(100 + number, "again", "yes", session=f"s{number}")))
        collector.send(traces(turn(99, "hi", "ho", session="new")))
        # The damaged rows are of the first session. What needs a row in which a name is damaged fails alone.
        for number in (*range(102, 113), 99):
            assert collector.scored(trace_id(number).hex())["output"] in ("yes", "ho")
        assert json.loads(collector.get("/readyz")) == {"status": "ready"}
    found = [trouble.what for trouble in check_data(tmp_path)]
    for table in ("traces", "trace_views", "outcomes"):
        assert any(f"1 rows of {table} have texts that are not UTF-8" in what for what in found), found
    assert agenteval("repair", "--data-dir", tmp_path).exit_code == 0
    assert check_data(tmp_path) == []
