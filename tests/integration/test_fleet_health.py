"""Whether a process of each role says that it is ready, when Kafka or PostgreSQL is away and when they come back."""

import time
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support.collector_process import collector_process
from tests.support.databases import store_settings
from tests.support.eventually import eventually
from tests.support.kafka.broker import Broker
from tests.support.otlp import traces, turn
from tests.support.postgres import Server
from tests.support.roles import Start, completed
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.distributed

STOPPED_WITHIN = 25.0
ROLES = ("receive", "assemble", "evaluate", "serve")


def test_each_role_says_when_kafka_is_away_and_back(start_role: Start, kafka: Broker) -> None:
    collectors = [start_role(role) for role in ROLES]
    kafka.stop()
    try:
        for each in collectors:
            assert "Kafka" in eventually(partial(trouble, each), within=60)
    finally:
        kafka.start()
    for each in collectors:
        eventually(partial(is_ready, each), within=120)
    receiver, _, _, server = collectors
    receiver.send(traces(turn(1, "a", "b", session="s")))
    completed(server, 1, within=150)


@pytest.mark.parametrize("away", ["kafka", "postgresql"])
def test_a_stop_does_not_wait_for_a_server_that_is_away(
    start_role: Start, kafka: Broker, postgresql: Server, away: str
) -> None:
    collector = start_role()
    collector.send(traces(turn(1, "a", "b", session="s")))
    completed(collector, 1)
    # Acknowledged, and on its way when the server goes away.
    collector.send(traces(turn(2, "a", "b", session="s")))
    server = kafka if away == "kafka" else postgresql
    server.stop()
    try:
        begun = time.monotonic()
        collector.service.shutdown()
        assert time.monotonic() - begun < STOPPED_WITHIN
    finally:
        server.start()


def test_roles_with_a_store_say_when_it_is_away_and_back(start_role: Start, postgresql: Server) -> None:
    receiver, *others = collectors = [start_role(role) for role in ROLES]
    postgresql.stop()
    try:
        for each in others:
            assert "store" in eventually(partial(trouble, each), within=60)
        assert is_ready(receiver), "who receives needs no store"
        receiver.send(traces(turn(1, "a", "b", session="s")))
    finally:
        postgresql.start()
    for each in collectors:
        eventually(partial(is_ready, each), within=120)
    completed(others[-1], 1, within=90)


def test_the_command_takes_a_role(tmp_path: Path, kafka: Broker, start_role: Start) -> None:
    settings = {
        "AGENTEVAL_LOG__URL": f"kafka://{kafka.address}/by-command",
        "AGENTEVAL_STORE__URL": store_settings()["url"],
    }
    with collector_process(tmp_path, settings, flags=["--role", "receive"]) as addresses:
        assert httpx.get(f"http://{addresses['web']}/readyz").status_code == 200
        page = httpx.get(f"http://{addresses['web']}/metrics").text
    assert "agenteval_collector_build_info" in page
    assert "agenteval_sessions_active" not in page


def is_ready(collector: RunningCollector) -> bool:
    return not trouble(collector)


def trouble(collector: RunningCollector) -> str:
    """Why a collector is not ready; empty where it is."""
    answer = httpx.get(f"http://{collector.addresses['web']}/readyz", timeout=10)
    return "" if answer.status_code == 200 else answer.text
