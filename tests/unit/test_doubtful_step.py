"""The step of several agents to look at first where none is known to have failed."""

from typing import Any

import pytest
from agenteval_collector.evaluation.doubtful_step import doubtful_step

from otel_agenteval.model import ModelCall, ToolCall, Trace, Turn
from tests.support.evaluating import trace


def reply(number: int, agent: str | None, output: str | None) -> ModelCall:
    return ModelCall(span_id=f"r{number}", agent=agent, output=output, started_at=number, ended_at=number)


def ran(number: int, result: str) -> ToolCall:
    return ToolCall(name="run", result=result, agent="expert", span_id=f"c{number}", started_at=number, ended_at=number)


def conversation(*steps: ModelCall | ToolCall, asked: str = "What do 4 tickets cost?", **changes: Any) -> Trace:
    replies = tuple(step for step in steps if isinstance(step, ModelCall))
    calls = tuple(step for step in steps if isinstance(step, ToolCall))
    answer = replies[-1].output if replies else None
    only = Turn(
        span_id="t", input=asked, output=answer, agent="chat", model_calls=replies, tool_calls=calls,
        started_at=0, ended_at=99,
    )  # fmt: skip
    return trace(only, **{"agents": ("chat", "planner", "expert"), **changes})


def test_figures_that_nobody_said_put_a_reply_in_doubt() -> None:
    step = doubtful_step(
        conversation(
            reply(1, "planner", "First the price, then the sum."),
            ran(2, "ok"),
            reply(2, "expert", "A ticket is 213.50, with a fee of 1,100."),
            reply(3, "planner", "So it is 1954."),
        )
    )
    assert step is not None
    assert (step.span_id, step.agent, step.turn, step.calls_before) == ("r2", "expert", 0, 1)
    assert step.what == "states 213.50, 1,100, which nobody said before"


@pytest.mark.parametrize(
    "before",
    [
        pytest.param({"asked": "A ticket is 213.50, with a fee of 1100: sum for 4?"}, id="by the user"),
        pytest.param({"system_instructions": "Price: 213.50. Fee: 1100."}, id="by the instructions"),
        pytest.param({"history": ("213.50 and 1100",)}, id="in the history"),
    ],
)
def test_figures_that_were_said_do_not(before: dict[str, Any]) -> None:
    said = conversation(ran(1, "ok"), reply(2, "expert", "A ticket is 213.50, the fee 1,100."), **before)
    assert doubtful_step(said) is None


def test_what_a_tool_returned_before_was_said_and_what_it_returns_later_was_not() -> None:
    plan, figures = reply(0, "planner", "Plan."), reply(2, "expert", "213.50 and 1100.")
    assert doubtful_step(conversation(plan, ran(1, "213.50 1100"), figures)) is None
    guess = doubtful_step(conversation(plan, figures, ran(3, "213.50 1100")))
    assert guess is not None
    assert guess.calls_before == 0


def test_a_single_figure_may_be_counted() -> None:
    assert doubtful_step(conversation(ran(1, "ok"), reply(2, "expert", "That is 854."))) is None


def test_what_an_agent_without_recorded_calls_has_read_is_not_known() -> None:
    surfs = reply(2, "planner", "The page says 213.50 and 1,100.")
    assert doubtful_step(conversation(ran(1, "ok"), surfs)) is None


def test_one_agent_alone_is_never_in_doubt() -> None:
    assert doubtful_step(conversation(ran(1, "ok"), reply(2, "expert", "213.50, 1,100."), agents=("expert",))) is None
