"""Recorded conversations through a running collector: the benchmark's figures over every way out."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from benchmarks.workload import taubench
from benchmarks.workload.conversation import Conversation
from benchmarks.workload.replay import replay
from otel_agenteval import AgentEvalSpanProcessor
from otel_agenteval.metrics import Run, reliability_report
from tests.support.eventually import eventually
from tests.support.running_collector import RunningCollector

SHARED = Path(os.environ.get("AGENTEVAL_SHARED") or Path(__file__).parents[3] / "shared")
RECORDED = SHARED / "taubench" / "gpt-4o-airline-tasks-00-24.json"

PASS_HAT_K = {"1": 0.31, "2": 0.193333, "3": 0.17, "4": 0.16}
"""Of the first 25 tasks, four trials each."""


@pytest.fixture(scope="module")
def conversations() -> list[Conversation]:
    if not RECORDED.exists():
        pytest.skip(f"{RECORDED} is absent: the recorded conversations are not part of the repository")
    return taubench.read(RECORDED)


@pytest.fixture(scope="module")
def collector(
    conversations: list[Conversation], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path_factory.mktemp("taubench")) as collector:
        provider = TracerProvider(resource=Resource.create({"service.name": "tau", "service.version": "1"}))
        provider.add_span_processor(AgentEvalSpanProcessor(endpoint=f"http://{collector.addresses['grpc']}"))
        count = 0
        for conversation in conversations:
            count += len(replay(conversation, provider))
            provider.force_flush()
        provider.shutdown()
        scored = re.compile(r'agenteval_evaluation_outcomes_total\{.*name="coherence".*\} (\S+)')
        eventually(lambda: sum(map(float, scored.findall(collector.get("/metrics")))) == count, within=60.0, every=0.2)
        yield collector


@pytest.fixture
def item(collector: RunningCollector) -> Any:
    (item,) = collector.get("/api/v1/reliability")["items"]
    return item


def test_the_benchmarks_figures_come_out(item: Any) -> None:
    assert (item["runs"], item["tasks"], item["estimated"]["outcomes"]) == (100, 25, 0)
    assert item["pass_hat_k"] == pytest.approx(PASS_HAT_K, abs=1e-6)


def test_consistency_is_that_of_the_offline_function(conversations: list[Conversation], item: Any) -> None:
    runs = [
        Run(
            task_id=each.task_id,
            run_id=each.run_id,
            success=each.success,
            actions=[call.name for turn in each.turns for step in turn.steps for call in step.calls],
        )
        for each in conversations
    ]
    report = reliability_report(runs)
    for name in ("C_out", "C_traj_d", "C_traj_s"):
        assert item["metrics"][name] == report.metrics[name]
        assert tuple(item["intervals"][name]) == report.intervals[name]


def test_gauges_show_what_is_defined_and_nothing_else(collector: RunningCollector, item: Any) -> None:
    series = re.compile(r'agenteval_reliability\{agenteval_reliability_metric="(\w+)",.*service_version="1"\} (.+)')
    defined = {name: value for name, value in item["metrics"].items() if value is not None}

    def shown() -> dict[str, float]:
        return {name: float(value) for name, value in series.findall(collector.get("/metrics"))}

    # They are computed behind the page's back, and may be of runs that were still going on.
    eventually(lambda: shown() == pytest.approx(defined), within=60)
    assert re.search(r'agenteval_reliability_runs\{.*service_version="1"\} 100\.0', collector.get("/metrics"))
