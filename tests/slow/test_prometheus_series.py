"""What a real Prometheus makes of the series: increases from the first event on, and examples with trace ids."""

import json
import shutil
import urllib.request
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from agenteval_collector.cli.demo_agents import play
from agenteval_collector.cli.demo_scripts import SCRIPTS

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

GOOD = next(script for script in SCRIPTS if script.session == "demo-good")


def total(server: prometheus.Prometheus, expression: str) -> float:
    """The sum over the series of an expression; 0 where there is none."""
    found = server.query(f"sum({expression})")
    return float(found[0]["value"][1]) if found else 0.0


def holds(server: prometheus.Prometheus, series: str, expected: float) -> bool:
    return total(server, series) == expected


def risen(series: str) -> str:
    """How far each series rose. `increase()` is this, extrapolated to the whole range by Prometheus."""
    return f"(max_over_time({series}[10m]) - min_over_time({series}[10m]))"


def test_the_first_burst_is_an_increase_and_histograms_lead_to_traces(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "prometheus").mkdir()
    with (
        JudgeServer(score=0.1) as judge,
        collector_process(
            tmp_path / "data",
            {
                "OPENAI_BASE_URL": judge.url,
                "AGENTEVAL_JUDGE__PRICES": "{gpt-4o-mini: {input: 1, output: 1}}",
            },
        ) as addresses,
        prometheus.start(f"http://{addresses['web']}/metrics", tmp_path / "prometheus") as server,
    ):
        eventually(lambda: server.query("up == 1"), within=60)
        for number in range(4):
            play(replace(GOOD, session=f"first-{number}"), f"http://{addresses['grpc']}", lambda _seconds: None)
        turns = 4 * len(GOOD.turns)
        judged = 'agenteval_evaluation_outcomes_total{gen_ai_evaluation_name="task_completion"}'
        for series in ("agenteval_agent_turn_duration_seconds_count", judged):
            eventually(partial(holds, server, series, turns), within=90)
        for series in (
            "agenteval_traces_total",
            "agenteval_agent_turn_duration_seconds_count",
            "agenteval_agent_operation_duration_seconds_count",
            "gen_ai_evaluation_score_count",
            judged,
            "agenteval_judge_requests_total",
            "gen_ai_evaluation_client_operation_duration_seconds_count",
            "gen_ai_evaluation_client_usage_tokens_sum",
            "gen_ai_evaluation_client_usage_cost_total",
        ):
            eventually(lambda: total(server, series) > 0)  # noqa: B023
            assert total(server, f"{series} - {risen(series)}") == pytest.approx(0), f"{series} does not begin with 0"
        increase = total(server, f"increase({judged}[10m])")
        assert increase == pytest.approx(turns, rel=0.5), "up to the extrapolation"
        for histogram in ("gen_ai_evaluation_score_bucket", "agenteval_agent_turn_duration_seconds_bucket"):
            [example, *_] = eventually(lambda: server.exemplars(histogram))  # noqa: B023
            url = f"http://{addresses['web']}/api/v1/traces/{example['labels']['trace_id']}"
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert json.load(answer)["agent"] == GOOD.agent
            assert len(example["labels"]["span_id"]) == 16
