"""Input that kills the collector is set aside; everything else goes on."""

import contextlib
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.crashing import SCRIPT, CollectorProcess
from tests.support.eventually import eventually
from tests.support.otlp import trace_id, traces, turn

POISON, HARMLESS = 7, (*range(1, 7), *range(8, 20))
FATAL = """
import os, signal
from pathlib import Path
from otel_agenteval.outcome import Method, Score

class Fatal:
    name, version, method = "fatal", "1", Method.EXACT

    def evaluate(self, context):
        is_poison = any("poison" in (turn.input or "") for turn in context.trace.turns)
        if is_poison and not Path(__file__).with_name("cure").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return Score(value=1.0, reason="it lives")
"""


def fatal_evaluator(folder: Path) -> Mapping[str, str]:
    """The environment of a process in which a package is installed whose evaluator kills it at some traces."""
    about = folder / "fatal-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fatal\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[otel_agenteval.evaluators]\nfatal = fatal_evaluator:Fatal\n")
    (folder / "fatal_evaluator.py").write_text(FATAL)
    return {"PYTHONPATH": str(folder)}


def agenteval(*arguments: str) -> str:
    """What the command says. Its exit code is not looked at: the doctor finds other things, too."""
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=240, check=False).stdout


def await_death(process: CollectorProcess) -> None:
    eventually(lambda: not process.runs, within=60)
    assert process.stop(signal.SIGTERM) == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_trace_that_kills_the_collector_twice_is_set_aside_and_everything_else_goes_on(tmp_path: Path) -> None:
    environ = fatal_evaluator(tmp_path / "package")
    process = CollectorProcess(tmp_path, environ)

    def status(number: int) -> Any:
        document = process.get(f"/api/v1/traces/{trace_id(number).hex()}")
        return document and document["status"]

    # All in one request: whatever is in hand with it is suspected, too.
    said = {number: "poison" if number == POISON else "hi" for number in (POISON, *HARMLESS)}
    process.send(traces(*(turn(number, text, "ok", session="s") for number, text in said.items())))
    await_death(process)
    # The second death may come before the ports are open.
    with contextlib.suppress(AssertionError):
        process.start(environ)
        await_death(process)
    process.start(environ)
    eventually(lambda: {status(number) for number in HARMLESS} == {"scored"}, within=60)
    eventually(lambda: status(POISON) == "failed", within=60)
    poison = trace_id(POISON).hex()
    [item] = process.get("/api/v1/quarantine")["items"]
    assert (item["id"], item["kind"], item["trace_ids"]) == (f"trace-{poison}", "trace", [poison])
    assert item["bytes"] > 0
    assert item["reason"] == "the collector died 2 times while it evaluated this trace"
    assert 'agenteval_collector_quarantine{agenteval_kind="trace"} 1' in process.get("/metrics")
    assert item["id"] in agenteval("doctor", "--url", f"http://{process.addresses['web']}")
    assert item["id"] in process.get("/problems")
    # It is scored as ever.
    process.send(traces(turn(30, "hi", "ok")))
    eventually(lambda: status(30) == "scored", within=60)

    # Tried again while it is still fatal, it is set aside at once.
    agenteval("repair", "--data-dir", str(tmp_path), "--retry", item["id"])
    await_death(process)
    process.start(environ)
    assert [each["id"] for each in process.get("/api/v1/quarantine")["items"]] == [item["id"]]
    assert status(POISON) == "failed"

    (tmp_path / "package" / "cure").touch()
    agenteval("repair", "--data-dir", str(tmp_path), "--retry", item["id"])
    eventually(lambda: status(POISON) == "scored", within=60)
    eventually(lambda: process.get("/api/v1/quarantine")["items"] == [], within=60)
    assert process.stop(signal.SIGTERM) == 0
