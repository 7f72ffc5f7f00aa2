"""The agents' own work as instruments."""

from collections.abc import Iterator
from typing import Any

import pytest
from agenteval_collector.emit.agents import AgentInstruments
from agenteval_collector.emit.attributes import BoundedIdentities
from agenteval_collector.emit.meter import Meter
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.model.agent_work import AgentWork, ModelWork, ToolWork, TurnWork, work_of
from agenteval_collector.model.news import News
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
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
        ModelWork("small", 0.5, {"input": 100, "cache_read": 30, "output": 20}, 0.25, failed=False),
        ModelWork("small", 1.5, {"input": 50}, None, failed=True),
    ]
    output.agents.take_news(News(work=[work(models=calls)]))
    model = ("gen_ai_request_model", "small")
    assert samples(output, "agenteval_agent_tokens_total") == {
        (model, ("gen_ai_token_type", "input")): 150,
        (model, ("gen_ai_token_type", "cache_read")): 30,
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
    models = [ModelWork(f"model {number}", 1.0, {"input": 1, "output": 1}, None, failed=False) for number in range(300)]
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
        models=[ModelWork("m", 1.0, {"input": 3, "output": 2}, 0.5, failed=False, span_id="c")],
        tools=[ToolWork("search", 2.0, failed=True), ToolWork("asked", None, failed=False)],
        turns=[TurnWork(5.0, failed=False, span_id="t")],
    )


AGENTS = st.sampled_from([None, "guide", "researcher"])
SERIES = ("agenteval_agent_tokens_total", "agenteval_agent_tool_calls_total")


def model_work(number: int, agent: str | None, tokens: int) -> ModelWork:
    return ModelWork("m", 1.0, {"input": tokens}, tokens / 1000, False, agent, f"{number:016x}")


def tool_work(number: int, agent: str | None) -> ToolWork:
    return ToolWork("search", 0.1, False, agent, f"{number:016x}")


def by_span(call: ModelWork | ToolWork) -> str:
    return call.span_id


MODELS = st.lists(st.builds(model_work, st.integers(0, 30), AGENTS, st.integers(1, 50)), unique_by=by_span, max_size=12)
TOOLS = st.lists(st.builds(tool_work, st.integers(0, 30), AGENTS), unique_by=by_span, max_size=8)


def counted(*revisions: AgentWork) -> dict[str, float]:
    """All sums and counts after these revisions, by name and attributes; asserts that none ever falls."""
    meter = Meter(Resource({}), InstrumentationScope("test"))
    instruments = AgentInstruments(meter, BoundedIdentities())
    before: dict[str, float] = {}
    for each in revisions:
        instruments.take_news(News(work=[each]))
        [of_resource] = meter.read(None).resource_metrics
        now = {
            f"{metric.name} {sorted((point.attributes or {}).items())}": round(
                getattr(point, "value", 0) or point.count, 6
            )
            for metric in of_resource.scope_metrics[0].metrics
            for point in metric.data.data_points
        }
        assert all(now[name] >= value for name, value in before.items())
        before = now
    return before


def in_all(counts: dict[str, float]) -> dict[str, float]:
    """Counts of instruments over all attributes."""
    sums: dict[str, float] = {}
    for name, value in counts.items():
        instrument = name.partition(" ")[0]
        sums[instrument] = round(sums.get(instrument, 0) + value, 6)
    return sums


def partly(data: st.DataObject, call: ModelWork) -> ModelWork:
    """A call as an earlier revision may have it: with less usage, as it was not known yet."""
    tokens = data.draw(st.integers(0, call.tokens["input"]))
    return call._replace(tokens={"input": tokens}, usd=tokens / 1000)


@given(MODELS, TOOLS, st.data())
def test_revisions_in_any_number_and_with_any_repetitions_count_what_the_last_one_holds(
    models: list[ModelWork], tools: list[ToolWork], data: st.DataObject
) -> None:
    """A late span, and usage that comes with a later revision, count once, for the agent that did the work."""
    parts: list[AgentWork] = []
    for revision in range(1, data.draw(st.integers(1, 4)) + 1):
        some = [partly(data, call) for call in models if data.draw(st.booleans())]
        parts.append(work(models=some, tools=[call for call in tools if data.draw(st.booleans())], revision=revision))
    last = work(models=data.draw(st.permutations(models)), tools=tools, revision=len(parts) + 1)
    assert counted(*parts, last, last) == counted(work(models=models, tools=tools))


@given(MODELS, TOOLS, st.data())
def test_calls_that_turn_out_to_be_of_other_agents_or_spans_count_once(
    models: list[ModelWork], tools: list[ToolWork], data: st.DataObject
) -> None:
    """The root that names the agent comes last, and so does the span within another that is the call itself."""
    early = [
        call._replace(agent=data.draw(AGENTS), span_id=data.draw(st.sampled_from([call.span_id, f"outer{number}"])))
        for number, call in enumerate(models)
    ]
    asked = [call._replace(span_id=f"call_{number}") for number, call in enumerate(tools)]
    first = work(agent=None, models=early, tools=asked)
    last = work(models=models, tools=tools, revision=2)
    assert in_all(counted(first, last)) == in_all(counted(work(models=models, tools=tools)))


def test_each_call_counts_for_the_agent_that_made_it(output: TelemetryOutput) -> None:
    calls = [
        ModelWork("m", 1.0, {"input": 10}, None, False, None, "a"),
        ModelWork("m", 1.0, {"input": 5000}, None, False, "researcher", "b"),
    ]
    output.agents.take_news(News(work=[work(models=calls, tools=[ToolWork("search", None, False, "researcher", "c")])]))
    page = rendered(output)
    by_agent = {
        (sample.labels["gen_ai_agent_name"], sample.name): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name in SERIES
    }
    assert by_agent == {
        ("guide", SERIES[0]): 10,
        ("researcher", SERIES[0]): 5000,
        ("researcher", SERIES[1]): 1,
    }


def test_a_later_revision_of_a_trace_from_before_a_restart_adds_only_what_is_newer_still(
    output: TelemetryOutput,
) -> None:
    call = ModelWork("m", 1.0, {"input": 10}, None, False, None, "a")
    late = ModelWork("m", 1.0, {"input": 7}, None, False, None, "b")
    output.agents.take_news(News(work=[work(models=[call], revision=2)]))
    assert samples(output, SERIES[0]) == {}
    output.agents.take_news(News(work=[work(models=[call, late], revision=3)]))
    assert list(samples(output, SERIES[0]).values()) == [7]
