"""`agenteval delete` while the collector is killed: the deletion is finished after a restart, and told."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from signal import SIGKILL, SIGTERM
from typing import Any

import pytest
from agenteval_collector.cli.client import post

from tests.support.crashing import SCRIPT, CollectorProcess
from tests.support.eventually import eventually
from tests.support.kept_bytes import all_kept_bytes
from tests.support.otlp import trace_id, traces, turn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WORD = "Zwetschge"
KEPT = "Apfel"
TRACES = 40
"""Of the session that is deleted: enough that kills come in the middle."""
MOST_ASKED = 300
"""Requests, of a millisecond or two each, between the deletion and a kill."""


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[CollectorProcess]:
    made = CollectorProcess(tmp_path)
    yield made
    assert made.stop(SIGTERM) == 0


def say(collector: CollectorProcess, first: int, session: str, word: str) -> None:
    numbers = range(first, first + TRACES)
    collector.send(traces(*(turn(each, f"{word} {each}?", f"{word}!", session=session) for each in numbers)))
    for number in numbers:
        eventually(lambda: collector.get(f"/api/v1/traces/{trace_id(number).hex()}"), within=60)  # noqa: B023


def asked(collector: CollectorProcess, body: dict[str, str]) -> Any:
    return post(f"http://{collector.addresses['web']}", "/api/v1/delete", body, None)


@pytest.mark.parametrize("seed", range(6))
def test_a_deletion_is_finished_whenever_it_is_killed(collector: CollectorProcess, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    say(collector, 1, "gone", WORD)
    say(collector, 1000, "kept", KEPT)
    deletion_id = asked(collector, {"session_id": "gone"})["deletion_id"] if seed % 2 else None
    if deletion_id is None:
        command = [str(SCRIPT), "delete", "--session", "gone", "--yes", "--url", f"http://{collector.addresses['web']}"]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, check=False, capture_output=True, timeout=random.uniform(0.3, 3.0))
    for _ in range(random.randrange(MOST_ASKED) if seed % 2 else 0):
        collector.get("/healthz")  # So that kills come at different steps.
    collector.stop(SIGKILL)
    collector.start()
    # Whoever saw no receipt asks again: what was done stays done.
    receipt = asked(collector, {"session_id": "gone"} if deletion_id is None else {"deletion_id": deletion_id})
    known = {"deletion_id": receipt["deletion_id"]}
    receipt = eventually(lambda: found if (found := asked(collector, known))["done_at"] else None, within=60)
    assert json.dumps(receipt).count(WORD) == 0
    assert collector.get("/api/v1/sessions/gone") is None
    assert collector.get("/api/v1/sessions/kept")["trace_ids"] == [
        trace_id(each).hex() for each in range(1000, 1000 + TRACES)
    ]
    left = [name for name, kept in all_kept_bytes(tmp_path).items() if WORD.encode() in kept]
    assert left == []
