"""A store that was copied by PostgreSQL's own tools beside a running collector, and brought back, goes on."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.cli.command_line import command_line
from sqlalchemy import make_url
from typer.testing import CliRunner

from tests.integration.test_store import hex_id
from tests.support.databases import stores_on
from tests.support.eventually import eventually
from tests.support.otlp import traces, turn
from tests.support.postgres import DATABASE, PASSWORD, Server, program
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.distributed

SESSIONS = 5


def run(*arguments: str, url: str) -> Any:
    return CliRunner().invoke(command_line(), arguments, env={"AGENTEVAL_STORE__URL": url, "COLUMNS": "500"})


def tool(name: str, on: Server, *arguments: str) -> None:
    """Run a program of PostgreSQL on the server, as an operator does."""
    environ = {**os.environ, "PGHOST": "127.0.0.1", "PGPORT": str(on.port), "PGUSER": "postgres"}
    command = [program(name), *arguments]
    subprocess.run(command, env={**environ, "PGPASSWORD": PASSWORD}, check=True, timeout=100)


@pytest.fixture
def restored(postgresql: Server) -> Iterator[str]:
    """The URL of an empty database beside the first one."""
    postgresql.execute("CREATE DATABASE restored")
    yield make_url(postgresql.url).set(database="restored").render_as_string(hide_password=False)
    postgresql.execute("DROP DATABASE restored WITH (FORCE)")


@contextmanager
def load(collector: RunningCollector) -> Iterator[list[int]]:
    """Send traces one after the other meanwhile; yields the numbers of those that were acknowledged."""
    acknowledged: list[int] = []
    over = threading.Event()

    def send() -> None:
        for number in range(1, 10_000):
            if over.is_set():
                return
            collector.send(traces(turn(number, f"where is order {number}?", "on its way", session=session(number))))
            acknowledged.append(number)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield acknowledged
    finally:
        over.set()
        thread.join(30)


def session(number: int) -> str:
    return f"s{number % SESSIONS}"


def shown(collector: RunningCollector, numbers: list[int]) -> dict[str, Any]:
    """All that is said of these traces, and of their sessions, but when it was found."""
    of_traces = {number: collector.scored(hex_id(number)) for number in numbers}
    sessions = {each["session_id"]: each for each in collector.get("/api/v1/sessions")["items"]}
    facts = ("status", "session_id", "input", "output", "revision")
    return {
        "traces": {number: [each[name] for name in facts] for number, each in of_traces.items()},
        "found": {number: [each["kind"] for each in document["findings"]] for number, document in of_traces.items()},
        "scores": {
            number: sorted((each["name"], each["status"], each["score"]) for each in document["outcomes"])
            for number, document in of_traces.items()
        },
        "sessions": {name: each["trace_count"] for name, each in sessions.items()},
        "agents": [each["agent"] for each in collector.get("/api/v1/agents")["items"]],
    }


def pages(collector: RunningCollector) -> list[Any]:
    """What the pages and lists answer; each has to."""
    paths = ("/", "/sessions", "/agents", "/problems", "/api/v1/problems", "/metrics", f"/traces/{hex_id(1)}")
    return [collector.get(path) for path in paths]


@pytest.mark.parametrize("form", ["plain", "custom"])
def test_a_copy_of_a_running_store_is_restored_and_goes_on(
    postgresql: Server, restored: str, tmp_path: Path, form: str
) -> None:
    dump, copy = str(tmp_path / "dump"), tmp_path / "copy"
    with stores_on(postgresql), RunningCollector(tmp_path / "data") as collector:
        with load(collector) as acknowledged:
            eventually(lambda: len(acknowledged) > 50)
            tool("pg_dump", postgresql, f"--format={form}", "--schema", "agenteval*", f"--file={dump}", DATABASE)
            dumped = len(acknowledged)
            eventually(lambda: len(acknowledged) > dumped + 20)
            kept = len(acknowledged)
            assert run("backup", str(copy), f"--data-dir={tmp_path / 'data'}", url=postgresql.url).exit_code == 0
        numbers = acknowledged[:kept]
        before = shown(collector, acknowledged)
    # The index of what was said needs it, and a dump of schemas has no extensions.
    tool("psql", postgresql, "-q", "-d", "restored", "-c", "CREATE EXTENSION pg_trgm")
    if form == "plain":
        tool("psql", postgresql, "-q", "-v", "ON_ERROR_STOP=1", "-d", "restored", "-f", dump)
    else:
        tool("pg_restore", postgresql, "--exit-on-error", "--dbname=restored", dump)

    checked = run("check", f"--data-dir={copy}", url=restored)
    assert checked.output == "Nothing is wrong.\n"
    with RunningCollector(copy, store={"url": restored}) as collector:
        after = shown(collector, numbers)
        for what in ("traces", "found", "scores"):
            assert after[what] == {number: before[what][number] for number in numbers}
        assert after["agents"] == before["agents"]
        assert sum(after["sessions"].values()) >= len(numbers)
        assert all(pages(collector))
        assert [each["session_id"] for each in collector.get("/api/v1/sessions?text=order+1%3F")["items"]] == ["s1"]
        # What comes afterwards is numbered behind what was there.
        collector.send(traces(turn(20_000, "and now?", "later", session="s1")))
        collector.scored(hex_id(20_000))
        newest = collector.service.pipeline.base.store
        with newest.snapshot() as records:
            assert records.newest_traces(1)[0][1].trace_id == hex_id(20_000)
    assert run("check", f"--data-dir={copy}", url=restored).output == "Nothing is wrong.\n"
