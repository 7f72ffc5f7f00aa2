import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from agenteval_collector.demo.agents import play
from agenteval_collector.demo.scripts import SCRIPTS
from agenteval_collector.testing.judge_server import JudgeServer

from otel_agenteval.proto.v1.evaluation_pb2 import EndSessionRequest
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from tests.support import prometheus
from tests.support.collector_process import collector_process
from tests.support.eventually import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("prometheus") is None,
        reason="prometheus is not installed (Debian: apt install prometheus)",
    ),
]

STUCK = next(script for script in SCRIPTS if script.session == "demo-stuck")
GOOD = next(script for script in SCRIPTS if script.session == "demo-good")


def firing(server: prometheus.Prometheus, name: str) -> list[dict[str, Any]]:
    return [alert for alert in server.alerts() if alert["state"] == "firing" and alert["labels"]["alertname"] == name]


def test_an_alert_fires_while_sessions_of_an_agent_are_stuck_and_resolves_when_they_end(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "prometheus").mkdir()
    with (
        JudgeServer(score=0.75) as judge,
        collector_process(tmp_path / "data", {"OPENAI_BASE_URL": judge.url}) as addresses,
        prometheus.start(f"http://{addresses['web']}/metrics", tmp_path / "prometheus") as server,
    ):
        endpoint = f"http://{addresses['grpc']}"
        for number in range(6):
            play(replace(STUCK, session=f"stuck-{number}"), endpoint, lambda _seconds: None)
            play(replace(GOOD, session=f"good-{number}"), endpoint, lambda _seconds: None)

        [alert] = eventually(lambda: firing(server, "AgentSessionsLow"), within=60)
        assert alert["labels"]["gen_ai_agent_name"] == STUCK.agent
        assert alert["annotations"]["summary"].startswith(f"6 active sessions of agent {STUCK.agent}")
        [loops] = server.query(f'agenteval_loops_total{{gen_ai_agent_name="{STUCK.agent}"}}')
        assert loops["value"][1] == "18"
        [looping] = eventually(lambda: firing(server, "AgentLoops"), within=60)
        assert looping["annotations"]["summary"].startswith(f"Agent {STUCK.agent}")
        assert looping["annotations"]["summary"].endswith("loops: repeated_answer")

        with grpc.insecure_channel(addresses["grpc"]) as channel:
            for number in range(6):
                EvaluationServiceStub(channel).EndSession(EndSessionRequest(session_id=f"stuck-{number}"), timeout=10)
        eventually(lambda: not firing(server, "AgentSessionsLow"), within=60)
        final = 'gen_ai_evaluation_score_count{gen_ai_evaluation_name="agent_reliability"}'
        # Some seconds later: turns may have been on the way.
        eventually(lambda: [series["value"][1] for series in server.query(final)] == ["6"], within=60)
