"""The agents' own work as instruments."""

from collections.abc import Iterator
from typing import Any

import pytest
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.model.agent_work import AgentWork, ModelWork, ToolWork, TurnWork, work_of
from agenteval_collector.model.news import News
from prometheus_client.parser import text_string_to_metric_families

from otel_agenteval.model import ModelCall, ToolCall, Trace, Turn, Usage
from tests.support.rendering import rendered

SECOND = 10**9
WHOSE = {"gen_ai_agent_name": "guide", "service_name": "shop", "service_version": "2"}


@pytest.fixture
def output() -> Iterator[TelemetryOutput]:
    made = TelemetryOutput(version="1", instance_id="i", is_on_duty=lambda: True)
    yield made
    made.shutdown(1.0)


def work(**changes: Any) -> AgentWork:
    nothing: dict[str, Any] = {"models": [], "tools": [], "turns": [], "loops": []}
    about = {"agent": "guide", "service": "shop", "version": "2", "environment": None}
    example = {"trace_id": "1" * 32, "span_id": None}
    return AgentWork(**{**about, **example, **nothing, **changes})


def samples(output: TelemetryOutput, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The values of a series by its labels, without those that say whose it is."""
    return {
        tuple(sorted((key, value) for key, value in sample.labels.items() if key not in WHOSE)): sample.value
        for family in text_string_to_metric_families(rendered(output))
        for sample in family.samples
        if sample.name == name
    }


def test_tokens_money_and_time_of_model_calls(output: TelemetryOutput) -> None:
    calls = [
        ModelWork("small", 0.5, 100, 20, 0.25, failed=False),
        ModelWork("small", 1.5, 50, 0, None, failed=True),
    ]
    output.agents.take_news(News(work=[work(models=calls)]))
    model = ("gen_ai_request_model", "small")
    assert samples(output, "agenteval_agent_tokens_total") == {
        (model, ("gen_ai_token_type", "input")): 150,
        (model, ("gen_ai_token_type", "output")): 20,
    }
    assert samples(output, "agenteval_agent_cost_total") == {(model,): 0.25}
    operation = ("gen_ai_operation_name", "chat")
    assert samples(output, "agenteval_agent_operation_duration_seconds_sum") == {
        (("agenteval_status", "ok"), operation, model): 0.5,
        (("agenteval_status", "error"), operation, model): 1.5,
    }


def test_tool_calls_by_what_came_of_them(output: TelemetryOutput) -> None:
    calls = [ToolWork("search", 0.2, failed=False), ToolWork("search", None, failed=True)]
    output.agents.take_news(News(work=[work(tools=calls)]))
    tool = ("gen_ai_tool_name", "search")
    assert samples(output, "agenteval_agent_tool_calls_total") == {
        (("agenteval_status", "ok"), tool): 1,
        (("agenteval_status", "error"), tool): 1,
    }
    durations = samples(output, "agenteval_agent_operation_duration_seconds_count")
    assert durations == {(("agenteval_status", "ok"), ("gen_ai_operation_name", "execute_tool"), tool): 1}


def test_turns_and_whose_they_are(output: TelemetryOutput) -> None:
    output.agents.take_news(News(work=[work(turns=[TurnWork(3.0, failed=False), TurnWork(1.0, failed=True)])]))
    assert samples(output, "agenteval_agent_turn_duration_seconds_sum") == {
        (("agenteval_status", "ok"),): 3.0,
        (("agenteval_status", "error"),): 1.0,
    }
    page = rendered(output)
    assert all(f'{name}="{value}"' in page for name, value in WHOSE.items())


def test_names_of_models_and_tools_are_bounded(output: TelemetryOutput) -> None:
    tools = [ToolWork(f"tool {number}", None, failed=False) for number in range(300)]
    models = [ModelWork(f"model {number}", 1.0, 1, 1, None, failed=False) for number in range(300)]
    output.agents.take_news(News(work=[work(tools=tools, models=models)]))
    calls = samples(output, "agenteval_agent_tool_calls_total")
    assert len(calls) == 101
    assert calls[("agenteval_status", "ok"), ("gen_ai_tool_name", "_other")] == 200
    assert len(samples(output, "agenteval_agent_tokens_total")) == 2 * 51


def test_the_work_of_a_trace() -> None:
    used = ModelCall(
        span_id="c", model="m", usage=Usage(input_tokens=3, output_tokens=2), started_at=0, ended_at=SECOND
    )
    tool = ToolCall(name="search", error="boom", started_at=0, ended_at=2 * SECOND)
    turn = Turn(
        span_id="t",
        input="",
        output="",
        error="x",
        is_cancelled=True,
        tool_calls=(tool, ToolCall(name="asked")),
        model_calls=(used,),
        started_at=0,
        ended_at=5 * SECOND,
    )
    trace = Trace(trace_id="1" * 32, turns=(turn,), agents=("guide",), service="shop", service_version="2")
    assert work_of(trace, lambda call: 0.5) == work(
        span_id="t",
        models=[ModelWork("m", 1.0, 3, 2, 0.5, failed=False)],
        tools=[ToolWork("search", 2.0, failed=True), ToolWork("asked", None, failed=False)],
        turns=[TurnWork(5.0, failed=False)],
    )
