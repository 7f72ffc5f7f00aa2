"""The sample agents of `agenteval demo`, played to a real collector: what is found in each, and what is shown of it."""

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.cli.demo_agents import play
from agenteval_collector.cli.demo_scripts import SCRIPTS
from agenteval_collector.cli.run_demo import demo_view, sample_traces
from rich.console import Console
from typer.testing import CliRunner

from tests.support.eventually import eventually
from tests.support.running_collector import RunningCollector


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path_factory.mktemp("demo")) as running:
        endpoint = f"http://{running.addresses['grpc']}"
        made = sum(play(script, endpoint, lambda _seconds: None) for script in SCRIPTS)
        assert made
        eventually(lambda: len(sample_traces(running.service.pipeline.queries)) == made)
        yield running


def kinds(session: dict[str, Any]) -> set[str]:
    return {finding["kind"] for finding in session["findings"]}


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        pytest.param("demo-good", set(), id="one answers well"),
        pytest.param("demo-stuck", {"repeated_answer"}, id="one is stuck"),
        pytest.param(
            "demo-failing-tools",
            {"tool_failed", "error_storm", "invalid_arguments", "model_failed", "turn_failed"},
            id="one has failing tools, and breaks down",
        ),
        pytest.param("demo-conversation", {"answer_cut", "value_not_said"}, id="one has small flaws"),
    ],
)
def test_each_sample_agent_shows_what_it_is_there_for(
    collector: RunningCollector, session: str, expected: set[str]
) -> None:
    assert kinds(collector.get(f"/api/v1/sessions/{session}")) == expected


def test_all_of_the_sample_agents_can_be_seen(collector: RunningCollector) -> None:
    for trace in sample_traces(collector.service.pipeline.queries):
        assert set(trace["seen"].values()) - {None} == {"all"}


def test_the_list_begins_with_the_worst_and_ends_with_the_good_one(collector: RunningCollector) -> None:
    items = collector.get("/api/v1/sessions?order=attention")["items"]
    assert [item["worst"] for item in items] == ["error", "error", "warning", "none"]
    assert items[-1]["session_id"] == "demo-good"
    [one] = collector.get("/api/v1/sessions?finding=answer_cut")["items"]
    assert one["session_id"] == "demo-conversation"


@pytest.mark.parametrize("width", [80, 110, 160])
def test_the_demo_shows_what_is_wrong_before_scores(collector: RunningCollector, width: int) -> None:
    console = Console(file=StringIO(), width=width)
    with console.capture() as captured:
        console.print(demo_view(collector.service.pipeline.queries, width))
    shown = captured.get()
    assert shown.index("demo-failing") < shown.index("demo-stuck") < shown.index("demo-good") < shown.index("asked")
    findings = shown[shown.index("severity") :]
    assert findings.index("turn failed") < findings.index("tool failed") < findings.index("asked")
    assert all(len(line) <= width for line in shown.splitlines())


def test_the_page_shows_them_too(collector: RunningCollector) -> None:
    page = collector.get("/")
    assert page.index("demo-failing-tools") < page.index("demo-conversation") < page.index("demo-good")
    for trace in sample_traces(collector.service.pipeline.queries):
        shown = collector.get(f"/traces/{trace['trace_id']}")
        assert ("No finding." in shown) is (not trace["findings"])


def test_json_is_what_was_played() -> None:
    result = CliRunner().invoke(command_line(), ["demo", "--once", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert set(document) == {"sessions", "traces", "findings", "metrics_url"}
    assert {session["session_id"] for session in document["sessions"]} == {script.session for script in SCRIPTS}
    assert document["findings"]["turn_failed"] == 1
    assert document["findings"]["tool_failed"] >= 4
    assert sum(document["findings"].values()) == sum(len(trace["findings"]) for trace in document["traces"])
