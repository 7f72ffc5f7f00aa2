"""plan_adherence and plan_quality without a judge."""

import time
from pathlib import Path

import pytest
from agenteval_collector.evaluators.plan_adherence import PlanAdherence
from agenteval_collector.evaluators.plan_quality import PlanQuality
from agenteval_collector.evaluators.plans import steps
from agenteval_collector.evaluators.port import TraceEvaluator

from otel_agenteval.conventions import read_trace
from otel_agenteval.model import Tool, ToolCall
from otel_agenteval.outcome import Status
from tests.support.evaluating import call, evaluate, status, trace, turn, value
from tests.support.recordings import DATA, recorded_logs, recorded_spans

TOOLS = tuple(Tool(name=name) for name in ("get_weather", "search_flights", "bookFlight"))
PLAN = "Plan: 1. Check the weather in Lisbon. 2. Search flights from BER to LIS. 3. Book the flight. 4. Enjoy."
WEATHER = call("get_weather", {"city": "Lisbon"})
SEARCH = call("search_flights", {"origin": "BER", "destination": "LIS"})
BOOK = call("bookFlight", {"id": "TP531"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(PLAN[:67], ("Check the weather in Lisbon.", "Search flights from BER to"), id="within a line"),
        pytest.param("1) a\n2) b\nAnd so on.", ("a", "b"), id="on lines"),
        pytest.param("Steps:\n- a\n* b\n• c", ("a", "b", "c"), id="with bullets"),
        pytest.param("1. a 2.  3. c", ("a", "", "c"), id="with a blank step"),
        pytest.param("Let me check that first.", (), id="prose"),
        pytest.param("1. a", (), id="a single step"),
        pytest.param("Version 2. of 3. may be 1. better", (), id="numbers that do not count up"),
        pytest.param("", (), id="nothing"),
    ],
)
def test_steps_are_listed(text: str, expected: tuple[str, ...]) -> None:
    assert steps(text) == expected


@pytest.mark.parametrize(
    ("calls", "expected", "evidence"),
    [
        pytest.param([WEATHER, SEARCH, BOOK], 1.0, "every step that names a tool", id="every step was taken"),
        pytest.param([WEATHER, SEARCH], 2 / 3, 'not taken: "Book the flight."', id="a step was left out"),
        pytest.param([WEATHER, SEARCH, call("cancel", {})], 2 / 3, "Book", id="another was taken instead"),
        pytest.param([], 0.0, "Check the weather", id="none was taken"),
    ],
)
def test_adherence_is_the_share_of_steps_that_calls_took(calls: list[ToolCall], expected: float, evidence: str) -> None:
    outcome = evaluate(PlanAdherence, trace(turn("q", "a", *calls, plan=(PLAN,)), tools=TOOLS))
    assert value(outcome) == pytest.approx(expected)
    assert evidence in outcome.reason


def test_a_later_plan_replaces_the_one_before() -> None:
    plans = (PLAN, "Revised plan: 1. Check the weather in Porto. 2. Search flights from BER to OPO.", "One moment.")
    subject = trace(turn("q", "a", call("get_weather", {"city": "Porto"}), plan=plans), tools=TOOLS)
    assert value(evaluate(PlanAdherence, subject)) == 0.5


@pytest.mark.parametrize(
    ("plan", "expected", "evidence"),
    [
        pytest.param(PLAN[:-10], 1.0, "no step is blank", id="a good plan"),
        pytest.param(PLAN, 0.75, 'step 4 is vague: "Enjoy."', id="a vague step"),
        pytest.param("1. Call Ann back 2.  3. Write her", 2 / 3, "step 2 is blank", id="a blank step"),
        pytest.param("1. Book the flight. 2. Book the flights!", 0.5, "step 2 says the same", id="a step said twice"),
        pytest.param(
            "\n".join(f"{n}. Visit town{n} by train{n}" for n in range(1, 26)), 0.8, "step 21", id="too many steps"
        ),
    ],
)
def test_quality_is_the_share_of_steps_without_fault(plan: str, expected: float, evidence: str) -> None:
    outcome = evaluate(PlanQuality, trace(turn("q", "a", plan=(plan,))))
    assert value(outcome) == pytest.approx(expected)
    assert evidence in outcome.reason


@pytest.mark.parametrize("kind", [PlanAdherence, PlanQuality])
def test_traces_without_steps_are_not_scored(kind: type[TraceEvaluator]) -> None:
    assert evaluate(kind, trace(turn())).reason == "no plan stated"
    assert "lists no steps" in evaluate(kind, trace(turn(plan=("Let me look.",)))).reason
    assert status(evaluate(kind, trace(turn(None, None)))) is Status.NO_CONTENT
    assert status(evaluate(kind, trace())) is Status.NOT_APPLICABLE


def test_steps_that_name_no_tool_take_a_judge() -> None:
    outcome = evaluate(PlanAdherence, trace(turn(plan=("1. Think hard 2. Decide well",)), tools=TOOLS))
    assert "names a tool" in outcome.reason
    assert status(outcome) is Status.NOT_APPLICABLE


RECORDED = sorted(path for path in (DATA / "corpus").glob("*--planchange.otlp.pb") if ".logs." not in path.name)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.partition("--")[0])
def test_the_revised_plan_of_a_recorded_agent_was_followed(path: Path) -> None:
    logs = recorded_logs(path.with_name(path.name.replace(".otlp.pb", ".logs.otlp.pb")))
    traces = [read_trace(each, found, logs.get(each, [])) for each, found in recorded_spans(path).items()]
    planned = [each for each in traces if any(steps(text) for t in each.turns for text in t.plan)]
    assert [value(evaluate(PlanAdherence, each)) for each in planned] == [1.0]
    assert [value(evaluate(PlanQuality, each)) for each in planned] == [1.0]


@pytest.mark.parametrize("unit", ["1. ", "- a\n", "\n", "a", "1.1.1.", "aA"])
def test_long_plans_take_linear_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    calls = [call("get_weather", {"city": f"town{number}"}) for number in range(10_000)]
    started = time.process_time()
    subject = trace(turn("q", "a", *calls, plan=(text,) * 20), tools=TOOLS)
    evaluate(PlanAdherence, subject)
    evaluate(PlanQuality, subject)
    assert time.process_time() - started < 10
