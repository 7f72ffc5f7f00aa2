"""What is set aside of real collectors, one after the other on the same data folder.

That a process died is played by the note that it leaves; `tests/slow/test_quarantine_kills.py` kills real ones.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import zstandard
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.model.deletions import DeletionFilter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from typer.testing import CliRunner, Result

from tests.support.databases import store_settings
from tests.support.dying_work import die_on
from tests.support.eventually import eventually
from tests.support.otlp import span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.databases

ONE, TWO, THREE = (trace_id(number).hex() for number in (1, 2, 3))
PATIENT = {"silence": 600.0, "max_age": 600.0}
"""Waits for the parents of spans until the test ends."""


def retry(folder: Path, item_id: str) -> Result:
    environ = {"AGENTEVAL_STORE__URL": url} if (url := store_settings().get("url")) else {}
    return CliRunner(env=environ).invoke(command_line(), ["repair", "--data-dir", str(folder), "--retry", item_id])


def items(collector: RunningCollector) -> dict[str, Any]:
    return {item["id"]: item for item in collector.get("/api/v1/quarantine")["items"]}


def leave_open(folder: Path, *numbers: int) -> None:
    """Leave traces in the log, each in a request of its own, that the next start assembles."""
    with RunningCollector(folder, assembly=PATIENT) as collector:
        for number in numbers:
            collector.send(traces(turn(number, "hi", "ok", number=2), span(number, 3, parent=1)))


def first_two(collector: RunningCollector) -> list[str | None]:
    documents = [collector.get(f"/api/v1/traces/{each}") for each in (ONE, TWO)]
    return [document and document["status"] for document in documents]


def test_a_request_on_which_processes_died_twice_is_passed_over_until_somebody_wants_it_again(tmp_path: Path) -> None:
    leave_open(tmp_path, 1, 2)
    die_on(tmp_path, "request", ["1", "2"])
    die_on(tmp_path, "request", ["1"])
    with RunningCollector(tmp_path) as collector:
        eventually(lambda: first_two(collector) == [None, "scored"])
        [item] = items(collector).values()
        assert (item["id"], item["kind"], item["trace_ids"]) == ("request-1", "request", [])
        assert item["reason"] == "the collector died 2 times while it took the spans out of this request"
        assert retry(tmp_path, "request-1").exit_code == 0
        eventually(lambda: first_two(collector) == ["scored", "scored"])
        eventually(lambda: items(collector) == {})


def test_a_retry_is_not_forgotten_by_a_stop(tmp_path: Path) -> None:
    leave_open(tmp_path, 1)
    die_on(tmp_path, "request", ["1"], times=2)
    with RunningCollector(tmp_path) as collector:
        assert [*items(collector)] == ["request-1"]
    assert retry(tmp_path, "request-1").exit_code == 0
    with RunningCollector(tmp_path) as collector:
        assert collector.scored(ONE)["status"] == "scored"
        eventually(lambda: items(collector) == {})


def test_one_death_may_have_another_cause(tmp_path: Path) -> None:
    leave_open(tmp_path, 1, 2)
    die_on(tmp_path, "request", ["1", "2"])
    with RunningCollector(tmp_path) as collector:
        eventually(lambda: first_two(collector) == ["scored", "scored"])
        assert items(collector) == {}


def test_what_is_set_aside_stays_in_the_log_as_long_as_content_does(tmp_path: Path) -> None:
    def in_log() -> list[int]:
        with closing(sqlite3.connect(tmp_path / "log.db")) as log:
            return [offset for [offset] in log.execute('SELECT "offset" FROM requests ORDER BY "offset"')]

    leave_open(tmp_path, 1, 2)
    die_on(tmp_path, "request", ["1"], times=2)
    die_on(tmp_path, "trace", [THREE], times=2)
    with RunningCollector(tmp_path, log={"retention": 0.001}) as collector:
        collector.send(traces(turn(3, "hi", "ok")))
        collector.send(traces(turn(4, "hi", "ok")))
        collector.scored(THREE)
        eventually(lambda: in_log() == [1, 3])
        for item_id in [*items(collector)]:
            retry(tmp_path, item_id)
        eventually(lambda: items(collector) == {})
        assert collector.scored(ONE)["status"] == collector.scored(THREE, revision=2)["status"] == "scored"
        eventually(lambda: in_log() == [])


def test_what_the_log_has_lost_stays_set_aside_and_says_so(tmp_path: Path) -> None:
    leave_open(tmp_path, 1)
    die_on(tmp_path, "request", ["1"], times=2)
    with RunningCollector(tmp_path) as collector:
        assert [*items(collector)] == ["request-1"]
    with closing(sqlite3.connect(tmp_path / "log.db")) as log, log:
        log.execute("DELETE FROM requests")
    retry(tmp_path, "request-1")
    with RunningCollector(tmp_path) as collector:
        eventually(lambda: items(collector)["request-1"]["reason"] == "the log does not have it any more")


def test_a_damaged_request_is_set_aside_at_once(tmp_path: Path) -> None:
    leave_open(tmp_path, 1, 2)
    with closing(sqlite3.connect(tmp_path / "log.db")) as log, log:
        log.execute('UPDATE requests SET crc = crc + 1 WHERE "offset" = 1')
    with RunningCollector(tmp_path) as collector:
        eventually(lambda: first_two(collector) == [None, "scored"])
        item = items(collector)["request-1"]
        assert (item["reason"], item["bytes"]) == ("its bytes in the log are not those that were written", None)
        assert 'agenteval_collector_quarantine{agenteval_kind="request"} 1' in collector.get("/metrics")
    with closing(sqlite3.connect(tmp_path / "log.db")) as log, log:
        log.execute('UPDATE requests SET crc = crc - 1 WHERE "offset" = 1')
    with RunningCollector(tmp_path) as collector:
        assert [*items(collector)] == ["request-1"]
        retry(tmp_path, "request-1")
        eventually(lambda: first_two(collector) == ["scored", "scored"])


def test_a_request_out_of_which_no_spans_come_is_set_aside_at_once(tmp_path: Path) -> None:
    leave_open(tmp_path, 1, 2)
    with closing(sqlite3.connect(tmp_path / "log.db")) as log, log:
        body = zstandard.compress(b"no protobuf")
        log.execute('UPDATE requests SET body = ?, crc = ? WHERE "offset" = 1', (body, crc32(body)))
    with RunningCollector(tmp_path) as collector:
        eventually(lambda: first_two(collector) == [None, "scored"])
        item = items(collector)["request-1"]
        assert (item["reason"], item["bytes"]) == ("its spans cannot be taken out of it: DecodeError", 11)


@pytest.mark.parametrize(
    "request_", [ExportTraceServiceRequest(), traces(), traces(span(1, 1), scope="otel_agenteval")]
)
def test_a_request_of_nothing_is_not_taken_for_a_damaged_one(
    tmp_path: Path, request_: ExportTraceServiceRequest
) -> None:
    with RunningCollector(tmp_path, assembly=PATIENT) as collector:
        collector.send(request_)
        collector.send(traces(turn(2, "hi", "ok")))
        collector.scored(TWO)
        assert items(collector) == {}


DAMAGE = {
    "sessions": ["services", "versions", "effort"],
    "traces": ["revised", "offsets", "effort"],
    "trace_views": ["unasked", "view"],
    "outcomes": ["metadata"],
}
"""Columns of JSON, by table."""
PAGES = ("/api/v1/traces", "/api/v1/sessions", "/api/v1/problems", "/api/v1/agents", "/sessions", "/", "/metrics")


@pytest.mark.sqlite
@pytest.mark.parametrize(("table", "column"), [(table, name) for table, names in DAMAGE.items() for name in names])
def test_a_row_that_cannot_be_read_is_left_out_and_set_aside_alone(tmp_path: Path, table: str, column: str) -> None:
    numbers = range(1, 4)
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(*(turn(number, "hi", "ok", session=f"s{number}") for number in numbers)))
        for number in numbers:
            collector.scored(trace_id(number).hex())
    with closing(sqlite3.connect(tmp_path / "agenteval.db")) as store, store:
        [[first]] = store.execute(f'SELECT min(rowid) FROM "{table}"')
        store.execute(f'UPDATE "{table}" SET "{column}" = \'x\' || "{column}" WHERE rowid = ?', (first,))
    with RunningCollector(tmp_path) as collector:
        # Everything that can be shown is, and what comes in other sessions is scored.
        for page in PAGES:
            assert collector.get(page)
        assert len(collector.get("/api/v1/sessions")["items"]) >= 2
        assert len(collector.get("/api/v1/traces")["items"]) >= 2
        collector.send(traces(*(turn(10 + number, "again", "yes", session=f"s{number}") for number in numbers)))
        collector.send(traces(turn(20, "hi", "ho", session="new")))
        statuses = {number: collector.scored(trace_id(number).hex())["status"] for number in (11, 12, 13, 20)}
        assert {number: status for number, status in statuses.items() if status != "scored"}.keys() <= {11}
        if column != "offsets":  # The log has these as well, so nothing is lost with them.
            [item] = eventually(lambda: [*items(collector).values()])
            assert (item["kind"], item["bytes"]) == ("row", None)
            assert item["reason"].startswith(f"a row of {'traces' if column == 'view' else table} cannot be read: ")


def test_nothing_is_tried_again_that_is_not_set_aside(tmp_path: Path) -> None:
    leave_open(tmp_path, 1)
    result = retry(tmp_path, "trace-0")
    assert result.exit_code == 1
    assert "nothing is in quarantine as trace-0; `agenteval doctor` lists what is" in result.stderr


@pytest.mark.parametrize("session", [None, "s"])
def test_a_trace_that_is_set_aside_is_scored_when_it_is_tried_again(tmp_path: Path, session: str | None) -> None:
    die_on(tmp_path, "trace", [THREE], times=2)
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(*(turn(number, "hi", "ok", session=session) for number in (2, 3, 4))))
        assert collector.scored(THREE)["status"] == "failed"
        assert collector.scored(TWO)["status"] == "scored"
        assert retry(tmp_path, f"trace-{THREE}").exit_code == 0
        document = collector.scored(THREE, revision=2)
        assert (document["status"], document["output"]) == ("scored", "ok")
        assert document["closing"]["by"] == "retry"
        assert len(collector.get(f"/api/v1/sessions/{session or THREE}")["trace_ids"]) == (3 if session else 1)
        eventually(lambda: items(collector) == {})


def test_a_deleted_trace_is_no_longer_set_aside(tmp_path: Path) -> None:
    die_on(tmp_path, "trace", [THREE], times=2)
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(turn(3, "hi", "ok")))
        document = collector.scored(THREE)
        assert (document["status"], document["output"]) == ("failed", None)
        assert {outcome["status"] for outcome in document["outcomes"]} == {"failed"}
        assert "repair --retry" in document["outcomes"][0]["reason"]
        assert items(collector)[f"trace-{THREE}"]["bytes"] > 0
        collector.service.pipeline.reports.delete(DeletionFilter(session_id=THREE), None)
        eventually(lambda: items(collector) == {})
