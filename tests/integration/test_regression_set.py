"""From a failing trace to a test: `agenteval dataset add`, a run of the agent, `agenteval replay`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.cli.command_line import command_line
from typer.testing import CliRunner, Result

from tests.support import asking
from tests.support.equality.documents import write_recording
from tests.support.eventually import eventually
from tests.support.otlp import span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

TOOL: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
FAILED = {**TOOL, "error.type": "TimeoutError"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A collector with two traces whose tool failed, and one that went well."""
    with RunningCollector(tmp_path_factory.mktemp("data")) as collector:
        for number in (1, 2, 3):
            tool = span(number, 2, parent=1, **(TOOL if number == 3 else FAILED))
            collector.send(traces(turn(number, f"question {number}", "an answer", session=f"s{number}"), tool))
        url = "http://" + collector.addresses["web"]
        eventually(lambda: len(asking.get(f"{url}/api/v1/traces").json()["items"]) == 3)
        eventually(lambda: asking.get(f"{url}/api/v1/problems").json()["items"])
        yield url


@pytest.fixture
def problem_id(url: str) -> str:
    [problem] = asking.get(f"{url}/api/v1/problems").json()["items"]
    return str(problem["problem_id"])


def agenteval(*arguments: str) -> Result:
    return CliRunner().invoke(command_line(), list(arguments), env={"AGENTEVAL_URL": None, "COLUMNS": "200"})


def added(url: str, file: Path, *arguments: str) -> Result:
    return agenteval("dataset", "add", str(file), *arguments, "--url", url)


def cases(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def recording(file: Path, *runs: tuple[str, dict[str, Any]]) -> Path:
    """Record a run of each task, with a call of a tool that has these attributes."""
    spans = []
    for number, (task, tool) in enumerate(runs, 11):
        root = turn(number, "a question", "an answer", session=f"run-{number}")
        root.attributes.add(key="agenteval.task.id").value.string_value = task
        spans += [root, span(number, 2, parent=1, **tool)]
    write_recording(file, [traces(*spans).SerializeToString()])
    return file


def test_a_problem_becomes_cases_that_hold_until_it_comes_back(url: str, problem_id: str, tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    assert "2 cases added" in added(url, file, "--problem", problem_id).stderr
    first, second = cases(file)
    assert {first["input"], second["input"]} == {"question 1", "question 2"}
    assert {first["trace_id"], second["trace_id"]} == {trace_id(1).hex(), trace_id(2).hex()}
    assert first["forbid"] == ["tool_failed"]
    assert first["problem_id"] == problem_id

    replayed = {
        outcome: agenteval("replay", str(recording(tmp_path / f"{outcome}.otlp.pb", *runs)), "--dataset", str(file))
        for outcome, runs in {
            "mended": [(first["task_id"], TOOL), (second["task_id"], TOOL)],
            "back": [(first["task_id"], TOOL), (second["task_id"], FAILED)],
            "not run": [(first["task_id"], TOOL)],
        }.items()
    }
    assert {outcome: result.exit_code for outcome, result in replayed.items()} == {"mended": 0, "back": 1, "not run": 1}
    [row] = [line for line in replayed["back"].stderr.splitlines() if "tool_failed" in line]
    assert second["task_id"] in row
    assert trace_id(12).hex() in row
    [row] = [line for line in replayed["not run"].stderr.splitlines() if "did not run" in line]
    assert second["task_id"] in row


def test_a_case_is_added_once(url: str, problem_id: str, tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    assert "1 case added" in added(url, file, "--problem", problem_id, "--limit", "1").stderr
    assert "1 case added" in added(url, file, "--problem", problem_id).stderr
    assert "0 cases added" in added(url, file, "--problem", problem_id).stderr
    assert len({case["task_id"] for case in cases(file)}) == len(cases(file)) == 2


def test_a_forbidden_finding_fails_a_build_without_a_dataset(tmp_path: Path) -> None:
    good, bad = recording(tmp_path / "good.otlp.pb", ("t", TOOL)), recording(tmp_path / "bad.otlp.pb", ("t", FAILED))
    assert agenteval("replay", str(good), "--forbid", "tool_failed").exit_code == 0
    failed = agenteval("replay", str(bad), "--forbid", "tool_failed", "--forbid", "model_failed")
    assert failed.exit_code == 1
    assert "any trace" in failed.stderr
    assert "model_failed" not in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["dataset", "add", "x.jsonl"], "give either --problem ID or --label fail"),
        (["replay", "x.json", "--forbid", "tool_fails"], "'tool_fails' is no kind of finding"),
        (["replay", "x.json", "--forbid", "tool_failed", "--endpoint", "127.0.0.1:1"], "leave out --endpoint"),
    ],
)
def test_a_mistake_is_told(arguments: list[str], says: str) -> None:
    result = agenteval(*arguments)
    assert result.exit_code == 1
    assert says in result.stderr


def test_no_other_file_is_added_to(url: str, problem_id: str, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a dataset\n")
    result = added(url, file, "--problem", problem_id)
    assert result.exit_code == 1
    assert "notes.txt, line 1: is not JSON" in result.stderr
    assert file.read_text() == "not a dataset\n"
