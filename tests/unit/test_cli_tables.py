"""Tables for a terminal."""

from io import StringIO
from typing import Any

import pytest
from agenteval_collector.cli.tables import finding_table, session_table, trace_table
from rich.console import Console
from rich.table import Table

from tests.support.memory_queries import NOW, finding, trace, turn
from tests.support.travel_agent import travel_agent

SCORES = (
    "task_completion",
    "tool_correctness",
    "argument_correctness",
    "step_efficiency",
    "confidence",
    "plan_adherence",
    "plan_quality",
    "coherence",
    "loop_detection",
)


def outcome(name: str, status: str = "scored", score: float | None = None) -> dict[str, Any]:
    success = None if score is None else score >= 0.5
    return {"name": name, "status": status, "score": score, "success": success, "method": "llm", "threshold": 0.5}


def printed(table: Table, width: int) -> list[str]:
    console = Console(file=StringIO(), width=width)
    with console.capture() as captured:
        console.print(table)
    return captured.get().splitlines()


def shown(*outcomes: dict[str, Any], width: int = 80) -> list[str]:
    """The lines of a table with one trace."""
    return printed(
        trace_table([trace("0" * 32, "checkout-7", turn("Where is\nmy order?", ""), began=0, outcomes=[*outcomes])]),
        width,
    )


def test_every_score_has_a_column_in_80() -> None:
    heading, row, *caption = shown(*(outcome(name, score=0.25) for name in SCORES))
    assert len(heading.split()) == 2 + len(SCORES)
    assert row.split()[-len(SCORES) :] == ["0.25"] * len(SCORES)
    assert all(name in " ".join(caption) for name in SCORES)


def test_scores_that_no_trace_has_take_no_room() -> None:
    heading, *_ = shown(outcome("confidence", "no_judge"), outcome("coherence", score=0.25))
    assert heading.split() == ["session", "asked", "fits"]


@pytest.mark.parametrize(
    ("outcomes", "mark"),
    [
        pytest.param([outcome("task_completion", score=1.0)], "1.00", id="a score"),
        pytest.param([outcome("task_completion", "not_applicable")], "–", id="nothing to score"),
        pytest.param([outcome("task_completion", "pending")], "…", id="a judge that has not answered"),
        pytest.param([outcome("task_completion", "failed")], "fail", id="an evaluator that failed"),
        pytest.param([], "–", id="an evaluator that is off"),
    ],
)
def test_a_score_is_shown_in_four_characters(outcomes: list[dict[str, Any]], mark: str) -> None:
    scored = trace("1" * 32, "other", turn("", ""), began=0, outcomes=[outcome("task_completion", score=0.5)])
    asked = trace("0" * 32, "checkout-7", turn("", ""), began=0, outcomes=outcomes)
    assert printed(trace_table([asked, scored]), 110)[1].split()[-1] == mark


def test_an_id_with_line_breaks_forges_no_row() -> None:
    named: Any = {**travel_agent().sessions().items[0], "session_id": "s\nforged\r\x1b\u2028"}
    [_, row] = printed(session_table([named], now=NOW, width=200), 200)
    assert row.startswith(r"s\u000aforged\u000d\u001b\u2028 ")


def test_findings_are_listed_by_session_and_kind_the_worst_first() -> None:
    found = [
        finding("tool_failed", "warning", reason="lookup failed: timeout"),
        finding("turn_failed", "error", reason="the turn\nended in an error"),
        finding("tool_failed", "warning", reason="lookup failed: refused"),
    ]
    _, *rows = printed(finding_table({"checkout-7": found, "fine": []}), 110)
    assert [" ".join(row.split()) for row in rows] == [
        "checkout-7 error turn failed 1 the turn ended in an error",
        "checkout-7 warning tool failed 2 lookup failed: timeout",
    ]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        pytest.param(80, ["session", "agent", "traces", "worst findings", "flagged", "reliability"], id="a narrow one"),
        pytest.param(140, ["session", "status", "judged low", "last seen"], id="a wide one has all"),
    ],
)
def test_a_terminal_says_first_where_to_look(width: int, columns: list[str]) -> None:
    queries = travel_agent()
    heading, *rows = printed(session_table(queries.sessions().items, now=NOW, width=width), width)
    assert [heading.index(column) for column in columns] == sorted(heading.index(column) for column in columns)
    [worst] = [row for row in rows if "3 errors: repeated answer" in row]
    assert worst.startswith("refund-1187")
    assert "0.00 (50%)" in worst
    assert all(len(row) <= width for row in rows)
