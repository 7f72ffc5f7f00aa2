"""A collector whose store is in PostgreSQL: what only such a one has to do."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.config.sources import ConfigError, load
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.errors import PermanentError, Unavailable
from agenteval_collector.stores.store import Store
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy import make_url
from typer.testing import CliRunner

from otel_agenteval.outcome import Score
from tests.integration.test_store import hex_id, record, score
from tests.support.clock import ManualClock
from tests.support.collector_process import SCRIPT, collector_process
from tests.support.databases import stores_on
from tests.support.eventually import eventually
from tests.support.otlp import trace_id, traces, turn
from tests.support.postgres import PASSWORD, Server, server
from tests.support.recordings import logs_of, read_requests, recordings
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.distributed


@pytest.fixture
def on(postgresql: Server) -> Iterator[Server]:
    with stores_on(postgresql):
        yield postgresql


def run(*arguments: str, **environ: str) -> Any:
    return CliRunner().invoke(command_line(), arguments, env={**environ, "COLUMNS": "500"})


def of(url: str) -> dict[str, str]:
    return {"AGENTEVAL_STORE__URL": url}


def backends(on: Server) -> Any:
    return on.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'otel-agenteval'")


def test_nothing_but_the_log_is_in_the_folder_and_a_restart_goes_on(on: Server, tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(turn(1, "a", "b", session="s")))
        before = collector.scored(hex_id(1))
    assert [file.name for file in sorted(tmp_path.glob("*.db"))] == ["log.db"]
    eventually(lambda: backends(on) == [(0,)])
    with RunningCollector(tmp_path) as collector:
        assert collector.scored(hex_id(1)) == before
        assert f"sessions/{'s'}" in collector.get("/")
        assert [each["session_id"] for each in collector.get("/api/v1/sessions?text=b")["items"]] == ["s"]


def told(collector: RunningCollector, requests: Sequence[ExportTraceServiceRequest]) -> dict[str, Any]:
    """What is said of each recorded trace, once all its spans are there."""
    spans: dict[str, set[bytes]] = {}
    for request in requests:
        collector.send(request)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    spans.setdefault(span.trace_id.hex(), set()).add(span.span_id)

    def whole(trace_id: str) -> Any:
        document = collector.scored(trace_id)
        return document if document["span_count"] == len(spans[trace_id]) else None

    documents = {trace_id: eventually(lambda trace_id=trace_id: whole(trace_id)) for trace_id in spans}  # type: ignore[misc]
    said = ("session_id", "agent", "input", "output", "tools_called", "outcomes", "status")
    return {
        trace_id: [
            *(document[name] for name in said),
            [(each["kind"], each["reason"]) for each in document["findings"]],
        ]
        for trace_id, document in documents.items()
    }


def test_recordings_are_told_of_as_by_a_file(postgresql: Server, tmp_path: Path) -> None:
    alone = [each for each in recordings("recorded") if not logs_of(each).exists()][:8]
    requests = [request for file in alone for request in read_requests(file, ExportTraceServiceRequest)]
    with RunningCollector(tmp_path / "file") as collector:
        expected = told(collector, requests)
    with stores_on(postgresql), RunningCollector(tmp_path / "server") as collector:
        assert told(collector, requests) == expected
    assert len(expected) >= len(alone)


def test_a_tenant_has_a_schema_of_its_own(on: Server, tmp_path: Path) -> None:
    keys = [{"name": "ann", "key": "of-a", "tenant": "a-b"}, {"name": "root", "key": "of-all"}]
    with RunningCollector(tmp_path, server={"keys": keys}):
        schemas = on.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'agenteval%' ORDER BY 1")
    assert schemas == [("agenteval",), ("agenteval_a-b",)]


def test_tenants_with_long_names_do_not_share_a_schema(on: Server) -> None:
    from agenteval_collector.stores.engines.postgresql import PostgresSchema  # noqa: PLC0415

    names = set()
    for tenant in ("x" * 63, "x" * 62 + "y", "x" * 53):
        with closing(PostgresSchema(on.url, tenant)) as schema:
            names.add(schema.schema)
    assert len(names) == 3
    assert max(map(len, names)) <= 63


def test_every_session_has_its_limits_and_its_keepalives(on: Server) -> None:
    from agenteval_collector.stores.engines.postgresql import PostgresSchema  # noqa: PLC0415

    store = Store(PostgresSchema(on.url), ManualClock(), events_of=no_events)
    for database in (store._pipeline, store._durable, store.outside):
        with database.engine.connect() as connection:
            names = ("statement_timeout", "idle_in_transaction_session_timeout", "lock_timeout", "synchronous_commit")
            shown = [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]
            assert shown == ["1min", "30s", "10s", "on"]
            driver: Any = connection.connection.driver_connection
            with socket.socket(fileno=os.dup(driver.fileno())) as wire:
                assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
    store.shutdown()


def test_a_server_that_does_not_take_them_is_refused(on: Server) -> None:
    from agenteval_collector.stores.engines import postgres_sessions  # noqa: PLC0415
    from agenteval_collector.stores.engines.postgresql import PostgresSchema  # noqa: PLC0415

    engine = PostgresSchema(on.url).engine(durable=True, pool_size=1)
    with engine.connect() as connection:
        connection.exec_driver_sql("SET statement_timeout = 0")
        with pytest.raises(PermanentError, match=r"does not take the session's statement_timeout: .*pooler"):
            postgres_sessions.check(connection, "agenteval")
    engine.dispose()


def test_another_collector_does_not_take_the_same_schema(
    on: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agenteval_collector.stores.engines import postgres_locks  # noqa: PLC0415

    monkeypatch.setattr(postgres_locks, "OWNED_WITHIN", 1)
    with (
        RunningCollector(tmp_path / "one"),
        pytest.raises(PermanentError, match=r"another collector uses the schema agenteval of 127\.0\.0\.1:\d+"),
    ):
        RunningCollector(tmp_path / "other")


def test_a_database_of_another_version_is_refused(on: Server, tmp_path: Path) -> None:
    RunningCollector(tmp_path).stop()
    on.execute("UPDATE agenteval.alembic_version SET version_num = '9999'")
    with pytest.raises(PermanentError, match=r"schema agenteval of 127.* cannot be used.*another version") as refused:
        RunningCollector(tmp_path)
    assert PASSWORD not in str(refused.value)
    for command in ("check", "repair"):
        told = run(command, f"--data-dir={tmp_path}", **of(on.url))
        assert (told.exit_code, "check and repair it with that version" in told.output) == (1, True)


def test_what_a_column_cannot_hold_fails_by_itself_or_is_replaced(on: Server) -> None:
    from agenteval_collector.stores.engines.postgresql import PostgresSchema  # noqa: PLC0415

    store = Store(PostgresSchema(on.url), ManualClock(), events_of=no_events)
    store.commit(Commit(traces=[record(1)], evaluations=[score(1, outcome=Score(value=1.0, reason="a\0b"))]))
    with store.snapshot() as records:
        assert records.first_finding(hex_id(1)) is None
    # No index entry is so long: 1024 letters of three bytes each, none of them twice in a row.
    long = "".join(chr(0x4E00 + number * 7919 % 20000) for number in range(1024))
    with pytest.raises(PermanentError, match="index row"):
        store.commit(Commit(traces=[record(2, session_id=long, agent=long)]))
    assert store.known_traces([hex_id(1), hex_id(2)]).keys() == {hex_id(1)}
    with pytest.raises(PermanentError):
        store.known_traces(["a\0b"])
    store.shutdown()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stop", "crash"])
def test_nothing_acknowledged_is_lost_when_the_server_goes_away(tmp_path: Path, how: signal.Signals) -> None:
    with server() as own, RunningCollector(tmp_path, store={"url": own.url}) as collector:
        for number in range(1, 21):
            collector.send(traces(turn(number, "a", "b", session="s")))
            if number == 10:
                own.stop(how)
        eventually(lambda: not collector.service.ready)
        assert "store could not be" in str(collector.service._health())
        own.start()
        for number in range(1, 21):
            assert collector.scored(hex_id(number))["status"] == "scored"
        eventually(lambda: collector.service.ready)
        [session] = collector.get("/api/v1/sessions")["items"]
        assert session["trace_count"] == 20
        counted = [line for line in collector.get("/metrics").splitlines() if line.startswith("agenteval_traces_total")]
        assert sum(float(line.rpartition(" ")[2]) for line in counted) == 20


def test_a_killed_collector_leaves_no_session_and_no_claim(on: Server, tmp_path: Path) -> None:
    free = [f"--{name}-address=127.0.0.1:0" for name in ("grpc", "http", "web")]
    command = [str(SCRIPT), "collector", f"--data-dir={tmp_path}", *free]
    with subprocess.Popen(command, env={**os.environ, **of(on.url)}, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert json.loads(killed.stdout.readline())
        killed.kill()
    with collector_process(tmp_path, of(on.url)) as addresses:
        assert set(addresses) == {"grpc", "http", "web"}
    eventually(lambda: backends(on) == [(0,)])


def test_where_it_cannot_be_reached_the_start_says_so_without_the_password(tmp_path: Path) -> None:
    url = f"postgresql+psycopg://ann:{PASSWORD}@127.0.0.1:1/db"
    done = run("collector", f"--data-dir={tmp_path}", **of(url))
    assert done.exit_code == 1
    assert "store.url: 127.0.0.1:1/db cannot be used now: connection failed" in done.output
    assert PASSWORD not in done.output
    assert PASSWORD not in run("config", **of(url)).output


def test_a_wrong_password_is_not_printed(on: Server) -> None:
    from agenteval_collector.stores.engines.postgresql import PostgresSchema  # noqa: PLC0415

    url = make_url(on.url).set(password="hunter2").render_as_string(hide_password=False)
    with pytest.raises(Unavailable, match="password authentication failed") as refused:
        PostgresSchema(url)
    assert "hunter2" not in str(refused.value)


def test_the_log_is_backed_up_and_both_are_checked(on: Server, tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with RunningCollector(data) as collector:
        collector.send(traces(turn(1, "a", "b", session="s")))
        collector.scored(trace_id(1).hex())
        done = run("backup", str(copy), f"--data-dir={data}", **of(on.url))
        assert "pg_dump --schema 'agenteval*'" in done.output
        assert [file.name for file in copy.iterdir()] == ["log.db"]
    assert run("check", f"--data-dir={data}", **of(on.url)).output == "Nothing is wrong.\n"
    on.execute("DELETE FROM agenteval.trace_views")
    on.execute(
        "INSERT INTO agenteval.progress VALUES ('default', 1000) ON CONFLICT (tenant) DO UPDATE SET checkpoint = 1000"
    )
    done = run("check", f"--data-dir={data}", "--json", **of(on.url))
    assert done.exit_code == 1
    told = json.loads(done.stdout)["troubles"]
    assert [each["file"] for each in told] == [f"the schema agenteval of 127.0.0.1:{on.port}/postgres", "log.db"]
    assert "1 rows of traces refer to rows that are lost" in told[0]["what"]
    assert "it is an older one" in told[1]["what"]


def test_with_the_log_in_kafka_the_store_alone_is_checked(on: Server, tmp_path: Path) -> None:
    with RunningCollector(tmp_path / "data") as collector:
        collector.send(traces(turn(1, "a", "b", session="s")))
        collector.scored(trace_id(1).hex())
    elsewhere = {**of(on.url), "AGENTEVAL_LOG__URL": "kafka://127.0.0.1:1/x"}
    folder = f"--data-dir={tmp_path / 'new'}"
    assert run("check", folder, **elsewhere).output == "Nothing is wrong.\n"
    on.execute("DELETE FROM agenteval.trace_views")
    done = run("check", folder, **elsewhere)
    assert done.exit_code == 1
    assert "1 rows of traces refer to rows that are lost" in done.output
    for command in (["backup", str(tmp_path / "copy")], ["repair"]):
        assert "pg_dump and pg_restore copy the store" in run(*command, folder, **elsewhere).output


def test_what_cannot_go_together_is_named() -> None:
    for url, said in (
        (f"postgresql://ann:{PASSWORD}@h/db", "store.url: is not postgresql+psycopg://user@host/database"),
        (f"postgresql+psycopg://ann:{PASSWORD}@h/db", "retention.max_bytes counts files"),
    ):
        with pytest.raises(ConfigError, match=re.escape(said)) as refused:
            load(environ={**of(url), "AGENTEVAL_RETENTION__MAX_BYTES": "1000000"})
        assert PASSWORD not in str(refused.value)


def test_without_the_setting_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; import agenteval_collector.app.collector;"
        "from agenteval_collector.stores.store import Store; from agenteval_collector.runtime.clock import *;"
        "from agenteval_collector.model.news import no_events;"
        f"Store(Path({str(tmp_path)!r}) / 'a.db', SystemClock(), events_of=no_events).shutdown();"
        "print([name for name in sys.modules if name.startswith('psycopg') or 'engines.postgres' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
