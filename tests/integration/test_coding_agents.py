"""Coding agents that send log records alone, at a running collector."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.support.eventually import eventually
from tests.support.recordings import DATA, read_requests
from tests.support.running_collector import RunningCollector

FOLDER = DATA / "coding_agents"


@pytest.fixture
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path_factory.mktemp("collector")) as running:
        yield running


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini-cli"])
def test_a_session_of_log_records_has_a_trace_for_each_prompt(collector: RunningCollector, name: str) -> None:
    expected = json.loads((FOLDER / f"{name}.expected.json").read_text())
    for request in read_requests(FOLDER / f"{name}.logs.otlp.pb", ExportLogsServiceRequest):
        collector.send_logs(request)

    def turns() -> Any:
        session = collector.get(f"/api/v1/sessions/{expected['session']}") or {"trace_ids": []}
        traces = [collector.get(f"/api/v1/traces/{each}") for each in session["trace_ids"]]
        found = [
            (trace["input"], trace["output"], trace["model_calls"], [call["outcome"] for call in trace["tools_called"]])
            for trace in traces
            if trace["complete"]
        ]
        wanted = [
            (turn["input"], turn["output"], turn["model_calls"], [call["outcome"] for call in turn["tools"]])
            for turn in expected["turns"]
        ]
        return found == wanted

    eventually(turns)
