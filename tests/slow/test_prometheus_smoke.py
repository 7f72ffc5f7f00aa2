import shutil
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from agenteval_collector.demo.agents import play
from agenteval_collector.demo.scripts import SCRIPTS

from otel_agenteval.proto.v1.evaluation_pb2 import EndSessionRequest
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from tests.support import prometheus
from tests.support.collector_process import collector_process
from tests.support.eventually import eventually
from tests.support.judge.judge_server import JudgeServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("prometheus") is None,
        reason="prometheus is not installed (Debian: apt install prometheus)",
    ),
]

STUCK = next(script for script in SCRIPTS if script.session == "demo-stuck")
BROKEN = next(script for script in SCRIPTS if script.session == "demo-failing-tools")
GOOD = next(script for script in SCRIPTS if script.session == "demo-good")


def firing(server: prometheus.Prometheus, name: str) -> list[dict[str, Any]]:
    return [alert for alert in server.alerts() if alert["state"] == "firing" and alert["labels"]["alertname"] == name]


def test_what_goes_wrong_without_a_judge_is_told_of_the_agent_that_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "prometheus").mkdir()
    with (
        collector_process(tmp_path / "data") as addresses,
        prometheus.start(f"http://{addresses['web']}/metrics", tmp_path / "prometheus") as server,
    ):
        # Else all would be there at the first scrape, as of an old collector.
        eventually(lambda: server.query("up == 1"), within=60)
        endpoint = f"http://{addresses['grpc']}"
        for number in range(6):
            for script in (BROKEN, STUCK, GOOD):
                play(replace(script, session=f"{script.session}-{number}"), endpoint, lambda _seconds: time.sleep(0.1))

        def agents(name: str) -> set[str]:
            return {alert["labels"]["gen_ai_agent_name"] for alert in firing(server, name)}

        def fires_for_both(name: str) -> bool:
            return agents(name) == {BROKEN.agent, STUCK.agent}

        eventually(lambda: BROKEN.agent in agents("AgentTracesWithErrors"), within=60)
        for name in ("AgentLoops", "AgentProblem"):
            eventually(partial(fires_for_both, name), within=60)
        said = {alert["annotations"]["summary"] for alert in firing(server, "AgentLoops")}
        assert f"Agent {STUCK.agent} ({STUCK.agent}) loops: repeated_answer" in said
        assert GOOD.agent not in agents("AgentTracesWithErrors")
        fine = f'agenteval_traces_total{{gen_ai_agent_name="{GOOD.agent}", agenteval_worst="none"}}'
        eventually(lambda: [series["value"][1] for series in server.query(fine)] == ["18"], within=60)
        assert not firing(server, "AgentSessionsLow")


def test_an_alert_fires_while_sessions_are_low_to_the_judge_and_resolves_when_they_end(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "prometheus").mkdir()
    with (
        JudgeServer(score=0.1) as judge,
        collector_process(tmp_path / "data", {"OPENAI_BASE_URL": judge.url}) as addresses,
        prometheus.start(f"http://{addresses['web']}/metrics", tmp_path / "prometheus") as server,
    ):
        for number in range(6):
            play(replace(GOOD, session=f"low-{number}"), f"http://{addresses['grpc']}", lambda _seconds: None)
        low = eventually(lambda: firing(server, "AgentSessionsLow"), within=60)
        assert {alert["labels"]["gen_ai_agent_name"] for alert in low} == {GOOD.agent}
        summary = f"6 active sessions of agent {GOOD.agent}"
        assert any(alert["annotations"]["summary"].startswith(summary) for alert in low)

        with grpc.insecure_channel(addresses["grpc"]) as channel:
            for number in range(6):
                EvaluationServiceStub(channel).EndSession(EndSessionRequest(session_id=f"low-{number}"), timeout=10)
        eventually(lambda: not firing(server, "AgentSessionsLow"), within=60)
        final = 'gen_ai_evaluation_score_count{gen_ai_evaluation_name="agent_reliability"}'
        # Some seconds later: turns may have been on the way.
        eventually(lambda: [series["value"][1] for series in server.query(final)] == ["6"], within=60)
