"""Tables for a terminal."""

from io import StringIO
from typing import Any

import pytest
from agenteval_collector.cli.tables import trace_table
from agenteval_collector.evaluators import TRACE_EVALUATORS
from agenteval_collector.judging.panel import JUDGED
from rich.console import Console

EVALUATORS = [*JUDGED, *(kind.name for kind in TRACE_EVALUATORS)]


def outcome(name: str, status: str = "scored", score: float | None = None, method: str = "llm") -> dict[str, Any]:
    success = None if score is None else score >= 0.5
    return {"name": name, "status": status, "score": score, "success": success, "method": method, "threshold": 0.5}


def shown(*outcomes: dict[str, Any], width: int = 80) -> list[str]:
    """The lines of a table with one trace."""
    trace = {"session_id": "checkout-7", "input": "Where is\nmy order?", "outcomes": list(outcomes)}
    console = Console(file=StringIO(), width=width)
    with console.capture() as captured:
        console.print(trace_table([trace]))
    return captured.get().splitlines()


def test_every_evaluator_has_a_column_in_80() -> None:
    heading, row, *caption = shown(*(outcome(name, score=0.25) for name in EVALUATORS))
    assert len(heading.split()) == 2 + len(EVALUATORS)
    assert row.split()[-len(EVALUATORS) :] == ["0.25"] * len(EVALUATORS)
    assert all(name in " ".join(caption) for name in EVALUATORS)


@pytest.mark.parametrize(
    ("outcomes", "mark"),
    [
        pytest.param([outcome("task_completion", score=1.0)], "1.00", id="a score"),
        pytest.param([outcome("task_completion", "not_applicable")], "–", id="nothing to score"),
        pytest.param([outcome("task_completion", "no_judge")], "–", id="no judge"),
        pytest.param([outcome("task_completion", "pending")], "…", id="a judge that has not answered"),
        pytest.param([outcome("task_completion", "failed")], "fail", id="an evaluator that failed"),
        pytest.param([], "–", id="an evaluator that is off"),
    ],
)
def test_a_score_is_shown_in_four_characters(outcomes: list[dict[str, Any]], mark: str) -> None:
    cells = shown(*outcomes, width=110)[1].split()
    assert cells[-len(EVALUATORS)] == mark
