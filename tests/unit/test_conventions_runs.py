"""Which run a trace belongs to, what came of it, and the tools it should have called, from attributes."""

from collections import Counter
from collections.abc import Mapping

import pytest

from otel_agenteval.conventions.run_attributes import STAMPED, RunNaming, expected_tools, run_identity, run_outcome
from otel_agenteval.model import ExpectedTool, Json, RunIdentity, RunOutcome

OWN = RunNaming(task=("case.id",), run=("case.attempt",), success=("case.passed",), confidence=("case.sure",))
STAMP: Mapping[str, Json] = {"agenteval.task.id": "refund", "agenteval.run.id": "3"}


@pytest.mark.parametrize(
    ("attributes", "naming", "expected"),
    [
        pytest.param({}, OWN, None, id="nothing names a run"),
        pytest.param(STAMP, STAMPED, RunIdentity(task_id="refund", run_id="3"), id="as our processor stamps it"),
        pytest.param(
            {"agenteval.task.id": "refund"},
            STAMPED,
            RunIdentity(task_id="refund", run_id="s-1"),
            id="a task without a run",
        ),
        pytest.param({"agenteval.run.id": "3"}, STAMPED, None, id="a run without a task"),
        pytest.param(
            {"agenteval.task.id": 7, "agenteval.run.id": 1.5},
            STAMPED,
            RunIdentity(task_id="7", run_id="1.5"),
            id="numbers",
        ),
        pytest.param(
            {"agenteval.task.id": True, "agenteval.run.id": False},
            STAMPED,
            RunIdentity(task_id="true", run_id="false"),
            id="booleans",
        ),
        pytest.param(
            {"agenteval.task.id": "", "agenteval.run.id": "", "case.id": "refund"},
            OWN,
            RunIdentity(task_id="refund", run_id="s-1"),
            id="empty names name nothing",
        ),
        pytest.param(
            {**STAMP, "agenteval.condition": "fault"},
            STAMPED,
            RunIdentity(task_id="refund", run_id="3", condition="fault"),
            id="under a condition",
        ),
        pytest.param({"case.id": "refund"}, STAMPED, None, id="an attribute that nobody configured"),
        pytest.param(
            {"case.id": "refund", "case.attempt": 7}, OWN, RunIdentity(task_id="refund", run_id="7"), id="own names"
        ),
        pytest.param(
            {"case.id": "refund"}, OWN, RunIdentity(task_id="refund", run_id="s-1"), id="else the session is the run"
        ),
        pytest.param(
            {**STAMP, "case.id": "other", "case.attempt": "1"},
            OWN,
            RunIdentity(task_id="refund", run_id="3"),
            id="what is stamped outranks own names",
        ),
    ],
)
def test_run_identity(attributes: Mapping[str, Json], naming: RunNaming, expected: RunIdentity | None) -> None:
    assert run_identity([{}, attributes], naming, session="s-1") == expected


@pytest.mark.parametrize(
    ("attributes", "expected", "unread"),
    [
        pytest.param({}, RunOutcome(), {}, id="nothing said"),
        pytest.param({"agenteval.run.success": True}, RunOutcome(success=True), {}, id="a boolean"),
        pytest.param({"agenteval.run.success": "false"}, RunOutcome(success=False), {}, id="a text"),
        pytest.param({"agenteval.run.success": 1.0}, RunOutcome(success=True), {}, id="a reward of 1"),
        pytest.param({"agenteval.run.success": 0.5}, RunOutcome(), {"run_success": 1}, id="half a success is none"),
        pytest.param({"case.passed": "no"}, RunOutcome(success=False), {}, id="an attribute of the application"),
        pytest.param({"agenteval.run.confidence": 0.8}, RunOutcome(confidence=0.8), {}, id="a confidence"),
        pytest.param({"case.sure": "0.25"}, RunOutcome(confidence=0.25), {}, id="a confidence as a text"),
        pytest.param({"agenteval.run.confidence": 80}, RunOutcome(), {"run_confidence": 1}, id="a percentage"),
        pytest.param({"agenteval.run.confidence": "nan"}, RunOutcome(), {"run_confidence": 1}, id="no number"),
        pytest.param({"agenteval.run.confidence": True}, RunOutcome(), {"run_confidence": 1}, id="a boolean is none"),
        pytest.param({"agenteval.run.confidence": 10**400}, RunOutcome(), {"run_confidence": 1}, id="beyond a float"),
    ],
)
def test_run_outcome(attributes: Mapping[str, Json], expected: RunOutcome, unread: dict[str, int]) -> None:
    counted: Counter[str] = Counter()
    assert run_outcome([attributes], OWN, counted) == expected
    assert counted == unread


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("[]", (), id="no tool is expected"),
        pytest.param('["search"]', (ExpectedTool(name="search"),), id="a name"),
        pytest.param(["search"], (ExpectedTool(name="search"),), id="an array attribute"),
        pytest.param(
            '[{"name": "search", "arguments": {"q": "x"}}]',
            (ExpectedTool(name="search", arguments={"q": "x"}),),
            id="a call with arguments",
        ),
        pytest.param("search", None, id="not a list"),
        pytest.param("[7]", None, id="neither a name nor an object"),
        pytest.param('[{"name": "search", "arguments": "x"}]', None, id="arguments that are no object"),
        pytest.param("[" * 500, None, id="nested without end"),
    ],
)
def test_expected_tools(value: Json, expected: tuple[ExpectedTool, ...] | None) -> None:
    counted: Counter[str] = Counter()
    assert expected_tools([{"agenteval.expected_tools": value}], counted) == expected
    assert counted == ({"expected_tools": 1} if expected is None else {})
