"""The money that repeated model calls cost, loop by loop."""

from typing import Any

import pytest
from agenteval_collector.model.agent_work import LoopWork, loop_work_of

from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import steps_of
from otel_agenteval.finding import Finding, Mode
from otel_agenteval.model import ModelCall, ModelQuestion, ToolCall, Trace, Turn
from tests.support.findings import loop_found


def trace(steps: str, **changes: Any) -> Trace:
    """A trace with one step for each letter: `m` a model call that asks for a tool, `a` that answers always the same,
    other letters a call of the tool of this name with always the same result; capital letters fail."""
    calls: list[ToolCall] = []
    asked: list[ModelCall] = []
    for number, letter in enumerate(steps):
        span_id, began, ended = f"{number + 2:016x}", 10 * number, 10 * number + 5
        if letter in "ma":
            said = "Please tell me your order number, so that I can look it up." if letter == "a" else None
            question = ModelQuestion("where is it?")
            asked.append(
                ModelCall(span_id=span_id, output=said, question=question, started_at=began, ended_at=ended, model="m")
            )
        else:
            error = "no such host" if letter.isupper() else None
            result = None if error else "no results"
            calls.append(
                ToolCall(
                    name=f"search_{letter}",
                    arguments={"q": "x"},
                    result=result,
                    error=error,
                    span_id=span_id,
                    started_at=began,
                    ended_at=ended,
                )
            )
    turn = Turn(
        span_id="1" * 16,
        input="where is it?",
        output=None,
        tool_calls=tuple(calls),
        model_calls=tuple(asked),
        started_at=0,
        ended_at=10 * len(steps),
    )
    return Trace(**{"trace_id": "1" * 32, "agents": ("planner",), "turns": (turn,), **changes})


def found_in(made: Trace) -> list[Finding]:
    detectors = Detectors("s", made.trace_id, RuleBook())
    return [loop_found(**_told(each)) for step in steps_of(made) for each in detectors.observe(step)]


def _told(found: Finding) -> dict[str, Any]:
    return {"kind": found.kind, "span_id": found.span_id, "mode": found.mode, "metadata": found.metadata}


def cost(made: Trace, findings: list[Finding]) -> dict[str, float]:
    return {each.kind: each.usd for each in loop_work_of(made, findings, lambda _: 1.0)}


@pytest.mark.parametrize(
    ("steps", "costs"),
    [
        pytest.param("mxmxmxm", {"identical_call": 2}, id="the first call is no repetition, and the answer is none"),
        pytest.param("mymxmxmxm", {"identical_call": 2}, id="work before it costs nothing"),
        pytest.param("mxmxmxmxmxmxm", {"identical_call": 5}, id="a loop that goes on costs more"),
        pytest.param("mxmxmxmymxm", {"identical_call": 2}, id="another call ends it"),
        pytest.param("mXmXmXmXm", {"error_storm": 3}, id="failures"),
        pytest.param("mxmymxmymxmym", {"cycle": 4}, id="two calls in turns"),
        pytest.param("aaaa", {"repeated_output": 3}, id="the model says the same"),
        pytest.param("mxmym", {}, id="no loop"),
    ],
)
def test_what_a_loop_costs(steps: str, costs: dict[str, float]) -> None:
    made = trace(steps)
    assert cost(made, found_in(made)) == costs


def test_an_answer_that_is_repeated_costs_its_turn() -> None:
    assert cost(trace("mm"), [loop_found(kind="repeated_answer", turn=0)]) == {"repeated_answer": 2}


def test_what_is_only_observed_costs_nothing() -> None:
    made = trace("mxmxmx")
    [found] = found_in(made)
    observed = loop_found(**{**_told(found), "mode": Mode.OBSERVE})
    assert cost(made, [observed]) == {}


@pytest.mark.parametrize(
    "metadata",
    [{}, {"span_ids": []}, {"span_ids": "x", "repetitions": 3}, {"span_ids": ["unknown"], "repetitions": 3}],
)
def test_what_does_not_say_where_it_began_costs_nothing(metadata: dict[str, Any]) -> None:
    made = trace("mxmxmx")
    [found] = found_in(made)
    assert cost(made, [loop_found(**{**_told(found), "metadata": metadata})]) == {}


def test_calls_without_a_known_price_cost_nothing() -> None:
    made = trace("mxmxmx")
    assert loop_work_of(made, found_in(made), lambda _: None) == []
    prices = iter([None, 0.5])
    assert loop_work_of(made, found_in(made), lambda _: next(prices)) == [LoopWork("identical_call", 0.5)]
