"""Agreement with the scores that the published code gives to scripted replies (tests/data/vectors, `llm_metrics`).

What that code has a judge extract stands in the trace here, or in the reply of the one extraction.
"""

import asyncio
from typing import Any

import pytest
from agenteval_collector.judge.panel import JUDGED
from agenteval_collector.judge.ports import Malformed

from otel_agenteval.model import Tool, Trace
from otel_agenteval.outcome import Score, Status, Unscored
from tests.support.judging import Script, model_call, panel, tool_call, trace, turn
from tests.support.vectors import vectors

CASES = vectors("session_and_trace_metrics.json")["llm_metrics"]

NO_PLAN = "no plan is no perfect plan"
NO_TOOLS = "without tools there is no choice of tools"
NO_CALLS = "without calls no argument is right"
TOO_FEW = "a verdict is missing"
TOO_MANY = "a verdict is of no call"


def overruled(case: dict[str, Any]) -> str | None:
    """Why a case is decided differently here; None where it is not."""
    first, *rest = case["judge_replies"]
    if case["metric"] in ("plan_adherence", "plan_quality") and not rest[0]["plan"]:
        return NO_PLAN
    if case["metric"] == "tool_correctness" and not first["tools_called"] and not first["available_tools"]:
        return NO_TOOLS
    if case["metric"] == "argument_correctness":
        if not first["tool_calls"]:
            return NO_CALLS
        missing = len(first["tool_calls"]) - len(rest[0]["verdicts"])
        if missing:
            return TOO_FEW if missing > 0 else TOO_MANY
    return None


EXPECTED = {NO_PLAN: "no plan", NO_TOOLS: "no tools", NO_CALLS: "no tool calls", TOO_FEW: None, TOO_MANY: None}
"""The reason of the outcome; None where the reply is malformed."""


def subject(case: dict[str, Any]) -> Trace:
    """A trace that says what the published code has a judge extract."""
    first = case["judge_replies"][0]
    calls = [
        tool_call(call["name"], at=at, arguments=call["parameters"])
        for at, call in enumerate(first.get("tools_called", first.get("tool_calls", [])), 2)
    ]
    tools = tuple(Tool(name=tool["name"]) for tool in first.get("available_tools", []))
    said = (model_call("thinking aloud", 1), model_call("done", 60)) if "plan" in case["metric"] else ()
    return trace(turn("u", "done", tool_calls=tuple(calls), model_calls=said), tools=tools)


def replies(case: dict[str, Any]) -> dict[str, Any]:
    """The case's replies to our questions."""
    metric, (first, *rest) = case["metric"], reasoned(case["judge_replies"])
    match metric:
        case "task_completion":
            return {"extract": first, "completion": rest[0]}
        case "confidence":
            return {"execution": {metric: as_score(first)}}
        case "tool_correctness":
            return {"tools": {metric: rest[0]}}
        case "argument_correctness":
            given = rest[0]["verdicts"] if rest else []
            return {"tools": {"verdicts": {f"call_{number}": each for number, each in enumerate(given, 1)}}}
    extract = {**first, **(rest[0] if "plan" in metric else {})}
    if metric == "plan_quality":
        return {"extract": extract, "plan": rest[-1]}
    return {"extract": extract, "execution": {metric: rest[-1]}}


NO_REASON = "the published code takes a score without a reason, too"


def reasoned(reply: Any) -> Any:
    """The reply with a reason beside each score and verdict: without one it would be malformed here."""
    if isinstance(reply, list):
        return [reasoned(each) for each in reply]
    if not isinstance(reply, dict):
        return reply
    whole = {key: reasoned(each) for key, each in reply.items()}
    scored = {"score", "verdict", "confidence"} & whole.keys()
    return {**whole, "reason": whole.get("reason") or NO_REASON} if scored else whole


def as_score(reply: Any) -> Any:
    """The published reply, in which the score has the metric's name."""
    return {"score" if key == "confidence" else key: value for key, value in reply.items()}


def judge(case: dict[str, Any]) -> Any:
    threshold = 0.5 if case["threshold"] is None else case["threshold"]
    judges = panel(thresholds=dict.fromkeys(JUDGED, threshold), trace_tokens=8_000)
    name = case["metric"]
    return asyncio.run(judges.judge(subject(case), {name}, Script(replies(case))))[name].outcome


def named(cases: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(case, id=f"{case['metric']}-{CASES.index(case)}") for case in cases]


AGREED = [case for case in CASES if overruled(case) is None and "error" not in case["expected"]]
ERRORS = [case for case in CASES if overruled(case) is None and "error" in case["expected"]]
OVERRULED = [case for case in CASES if overruled(case)]


@pytest.mark.parametrize("case", named(AGREED))
def test_scores_agree_with_the_published_code(case: dict[str, Any]) -> None:
    outcome, expected = judge(case), case["expected"]
    assert isinstance(outcome, Score)
    assert outcome.value == expected["score"]
    assert (outcome.value >= expected["metadata"]["threshold"]) == expected["metadata"]["success"]
    if case["metric"] != "argument_correctness":
        # Its reason is composed here from the verdicts, where the published code asks once more.
        assert outcome.reason == expected["reason"] or expected["reason"] is None
    for name, value in expected["metadata"].items():
        if name == "verdicts":
            told = [{key: each[key] for key in ("verdict", "reason")} for each in outcome.metadata[name]]
            assert told == reasoned(value)
        elif name == "available_tools" and not value:
            # Unknown is not none.
            assert outcome.metadata[name] is None
        elif name not in ("threshold", "success"):
            assert outcome.metadata[name] == value


@pytest.mark.parametrize("case", named(ERRORS))
def test_replies_that_the_published_code_refuses_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        judge(case)


@pytest.mark.parametrize("case", named(OVERRULED))
def test_where_the_published_score_is_overruled(case: dict[str, Any]) -> None:
    expected = EXPECTED[overruled(case) or ""]
    if expected is None:
        with pytest.raises(Malformed):
            judge(case)
        return
    outcome = judge(case)
    assert isinstance(outcome, Unscored)
    assert outcome.status == Status.NOT_APPLICABLE
    assert outcome.reason.startswith(expected)


def test_every_way_to_overrule_occurs() -> None:
    assert {overruled(case) for case in OVERRULED} == set(EXPECTED)
    assert {case["metric"] for case in AGREED} >= {"task_completion", "tool_correctness", "argument_correctness"}
