"""`agenteval export` of a real collector: what it keeps, as documents and as it was recorded."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.cli.recordings import read_recording
from typer.testing import CliRunner, Result

from otel_agenteval.internal.text import storable
from tests.support import asking
from tests.support.eventually import eventually
from tests.support.otlp import span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

TRACES = 120
"""More than two pages."""
FAILED: dict[str, Any] = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "search",
    "error.type": "TimeoutError",
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RunningCollector(tmp_path_factory.mktemp("export")) as collector:
        for number in range(1, TRACES + 1):
            spans = [turn(number, f"question {number}", f"answer {number}", session=f"s{number % 7}")]
            if number % 10 == 0:
                spans.append(span(number, 2, parent=1, **FAILED))
            collector.send(traces(*spans))
        url = "http://" + collector.addresses["web"]
        eventually(lambda: len(_all(url, "/api/v1/traces?limit=500")) == TRACES)
        yield url


def _all(url: str, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = asking.get(url + path).json()["items"]
    return items


def export(url: str, *arguments: str) -> Result:
    clean = {"AGENTEVAL_URL": None, "AGENTEVAL_API_KEY": None, "COLUMNS": "200"}
    return CliRunner().invoke(command_line(), ["export", *arguments, "--url", url], env=clean)


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_traces_are_the_documents_of_the_api(url: str) -> None:
    assert lines(export(url, "traces")) == _all(url, "/api/v1/traces?limit=500")


def test_sessions_and_outcomes_are_exported_as_well(url: str) -> None:
    assert {each["session_id"] for each in lines(export(url, "sessions"))} == {f"s{number}" for number in range(7)}
    exported = lines(export(url, "outcomes", "--text", "question 77"))
    [trace] = _all(url, "/api/v1/traces?text=question+77")
    assert [each["name"] for each in exported] == [each["name"] for each in trace["outcomes"]]
    assert {each["trace_id"] for each in exported} == {trace["trace_id"]}


def test_a_file_gets_what_the_filters_choose_and_no_more_than_the_limit(url: str, tmp_path: Path) -> None:
    file = tmp_path / "failed.jsonl"
    result = export(url, "traces", "--finding", "tool_failed", "--limit", "5", "--output", str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    exported = [json.loads(line) for line in file.read_text().splitlines()]
    assert [int(each["trace_id"], 16) for each in exported] == [120, 110, 100, 90, 80]


def test_a_labelled_trace_is_exported_with_its_label(url: str) -> None:
    wrong = {"trace_id": trace_id(3).hex(), "name": "task_completion", "value": 0.0, "author": "ann"}
    token = asking.get(url + "/api/v1/token").json()["token"]
    httpx.post(url + "/api/v1/labels", json=wrong, headers={"X-Agenteval-Token": token}).raise_for_status()
    [trace] = lines(export(url, "traces", "--label", "fail"))
    [label] = lines(export(url, "labels"))
    assert trace["trace_id"] == label["trace_id"] == wrong["trace_id"]
    assert (label["name"], label["value"], label["author"]) == ("task_completion", 0.0, "ann")


def test_a_replay_takes_spans_as_they_were_recorded(url: str, tmp_path: Path) -> None:
    file = tmp_path / "recorded.jsonl"
    assert export(url, "traces", "--format", "otlp", "--finding", "tool_failed", "-o", str(file)).exit_code == 0
    assert len(list(read_recording(file))) == TRACES / 10
    replayed = CliRunner().invoke(command_line(), ["replay", "--json", str(file)])
    assert replayed.exit_code == 0, replayed.output
    document = json.loads(replayed.stdout)
    again = {each["trace_id"]: each for each in document["traces"]}
    first = {each["trace_id"]: each for each in _all(url, "/api/v1/traces?finding=tool_failed&limit=500")}
    assert again.keys() == first.keys()
    for name, trace in first.items():
        for field in ("input", "output", "tools_called", "agents", "started_at", "session_id"):
            assert again[name][field] == trace[field]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sessions", "--format", "otlp"), "otlp is for traces"),
        (("labels", "--agent", "planner"), "--agent does not choose labels"),
        (("sessions", "--problem", "0" * 16), "--problem does not choose sessions"),
        (("traces", "--label", "good"), "label is 'good'"),
        (("traces", "-o", "/no/such/folder/file"), "cannot be written"),
    ],
)
def test_a_wrong_option_ends_the_command_with_a_sentence(url: str, arguments: tuple[str, ...], words: str) -> None:
    result = export(url, *arguments)
    assert result.exit_code == 1
    assert words in storable(result.stderr)
