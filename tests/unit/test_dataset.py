"""Ground truth in a file."""

from pathlib import Path

import pytest
from agenteval_collector.cli.dataset import read_dataset
from agenteval_collector.model.runs import RunReport
from agenteval_collector.runtime.errors import InvalidRequest

from otel_agenteval.model import ExpectedTool, RunIdentity


def test_lines_say_what_came_of_runs_and_what_they_should_have_called(tmp_path: Path) -> None:
    file = tmp_path / "truth.jsonl"
    file.write_text(
        '{"task_id": "refund", "run_id": "1", "success": true, "confidence": 0.5}\n'
        "\n"
        '{"task_id": "refund", "run_id": "2", "condition": "fault", "success": false, "expected_tools": []}\n'
        '{"task_id": "refund", "expected_tools": ["find", {"name": "pay", "arguments": {"order": 7}}]}\n'
    )
    dataset = read_dataset(file)
    assert dataset.reports == [
        RunReport(task_id="refund", run_id="1", success=True, confidence=0.5),
        RunReport(task_id="refund", run_id="2", condition="fault", success=False),
    ]
    of_task = (ExpectedTool(name="find"), ExpectedTool(name="pay", arguments={"order": 7}))
    assert dataset.truth(RunIdentity(task_id="refund", run_id="1")).tools == of_task
    assert dataset.truth(RunIdentity(task_id="refund", run_id="2", condition="fault")).tools == ()
    assert dataset.truth(RunIdentity(task_id="refund", run_id="2")).tools == of_task
    assert dataset.truth(RunIdentity(task_id="other", run_id="1")) == (None, None)
    assert dataset.truth(None) == (None, None)


def test_a_run_may_have_another_answer_than_its_task_and_the_same_tools(tmp_path: Path) -> None:
    file = tmp_path / "truth.jsonl"
    file.write_text(
        '{"task_id": "t", "expected_tools": ["find"], "expected_answer": "42"}\n'
        '{"task_id": "t", "run_id": "2", "expected_answer": "43"}\n'
    )
    dataset = read_dataset(file)
    tools = (ExpectedTool(name="find"),)
    assert dataset.truth(RunIdentity(task_id="t", run_id="1")) == (tools, "42")
    assert dataset.truth(RunIdentity(task_id="t", run_id="2")) == (tools, "43")


def test_whose_run_it_was_may_be_said(tmp_path: Path) -> None:
    file = tmp_path / "truth.jsonl"
    file.write_text('{"task_id": "t", "run_id": "1", "success": true, "agent": "clerk", "service_version": "1.4"}')
    expected = RunReport(task_id="t", run_id="1", success=True, agent="clerk", service_version="1.4")
    assert read_dataset(file).reports == [expected]


def test_only_a_newline_ends_a_line_and_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    file = tmp_path / "truth.jsonl"
    lines = (f'{{"task_id": "a{between}b", "run_id": "1", "success": true}}' for between in "\u2028\u2029\x85")
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert [report.task_id for report in read_dataset(file).reports] == ["a\u2028b", "a\u2029b", "a\x85b"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("nonsense", "truth.jsonl, line 1: is not JSON", id="no JSON"),
        pytest.param("[" * 100_000, "line 1: is not JSON", id="nested without end"),
        pytest.param("[1]", "line 1: is no JSON object", id="no object"),
        pytest.param('{"run_id": "1"}', "line 1: task_id: Field required", id="no task"),
        pytest.param('{"task_id": ""}', "line 1: task_id: String should have", id="an empty task"),
        pytest.param('{"task_id": 7}', "line 1: task_id: Input should be a valid string", id="a number as id"),
        pytest.param('{"task_id": "a", "succes": true}', "line 1: succes: Extra inputs", id="a misspelt key"),
        pytest.param('{"task_id": "a", "success": true}', "give run_id", id="an outcome of no run"),
        pytest.param('{"task_id": "a", "run_id": "1", "success": 1}', "success: Input should be", id="no boolean"),
        pytest.param('{"task_id": "a", "run_id": "1", "confidence": 80}', "confidence: Input", id="a percentage"),
        pytest.param('{"task_id": "a", "run_id": "1", "condition": "rain"}', "condition is 'rain'", id="a condition"),
        pytest.param(
            '{"task_id": "a", "expected_answer": " ?"}', "expected_answer has no letter and no", id="no answer"
        ),
        pytest.param('{"task_id": "a", "expected_tools": [7]}', "expected_tools is no list of names", id="no tool"),
    ],
)
def test_what_is_wrong_with_a_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "truth.jsonl"
    file.write_text(line)
    with pytest.raises(InvalidRequest, match=message):
        read_dataset(file)


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"absent\.jsonl: cannot be read: No such file"):
        read_dataset(tmp_path / "absent.jsonl")
