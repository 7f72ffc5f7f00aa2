"""The series of a running collector, as a scrape shows them."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.support.eventually import eventually
from tests.support.looping import root_span, tool_span
from tests.support.otlp import span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector


def samples(page: str, name: str) -> list[Sample]:
    return [
        sample for family in text_string_to_metric_families(page) for sample in family.samples if sample.name == name
    ]


@pytest.mark.parametrize("attribute", ["deployment.environment.name", "deployment.environment"])
def test_every_series_about_an_agent_says_in_which_environment_it_works(tmp_path: Path, attribute: str) -> None:
    request = traces(*(tool_span(1, number) for number in range(2, 6)), root_span(1, session="s"))
    request.resource_spans[0].resource.attributes.add(key=attribute).value.string_value = "staging"
    with RunningCollector(tmp_path, session={"idle": 0.5}) as collector:
        collector.send(request)
        collector.scored(trace_id(1).hex())
        eventually(lambda: samples(collector.get("/metrics"), "agenteval_sessions_total"))
        page = collector.get("/metrics")
    for name in (
        "agenteval_findings_total",
        "agenteval_loops_total",
        "agenteval_loop_last_seconds",
        "agenteval_traces_total",
        "agenteval_sessions_total",
        "agenteval_evaluation_outcomes_total",
        "agenteval_agent_tool_calls_total",
        "agenteval_agent_turn_duration_seconds_count",
    ):
        found = {sample.labels.get("deployment_environment_name") for sample in samples(page, name)}
        assert found == {"staging"}, name


def test_a_partial_trace_is_counted_once_with_its_reason(tmp_path: Path) -> None:
    cut = turn(1, "Where is it?", "Here.")
    cut.dropped_attributes_count = 1
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(cut))
        collector.send(traces(turn(2, "Where is it?", "Here.")))
        for number in (1, 2):
            collector.scored(trace_id(number).hex())
        collector.send(traces(turn(1, "And this?", "There.", number=2)))
        collector.scored(trace_id(1).hex(), revision=2)
        [found] = samples(collector.get("/metrics"), "agenteval_collector_traces_partial_total")
    assert (found.labels, found.value) == ({"agenteval_reason": "cut"}, 1)


def test_what_a_loop_costs_is_counted(tmp_path: Path) -> None:
    spans = [root_span(1)]
    for number in range(2, 7):
        spans.append(tool_span(1, 2 * number))
        call = span(
            1,
            2 * number + 1,
            parent=1,
            gen_ai__operation__name="chat",
            gen_ai__request__model="m",
            gen_ai__usage__input_tokens=1_000_000,
        )
        call.start_time_unix_nano = spans[-1].end_time_unix_nano
        call.end_time_unix_nano = call.start_time_unix_nano + 100_000
        spans.append(call)
    with RunningCollector(tmp_path, prices={"m": {"input": 0.5, "output": 1.0}}) as collector:
        collector.send(traces(*spans))
        collector.scored(trace_id(1).hex())
        page = collector.get("/metrics")
    [loop] = samples(page, "agenteval_loops_cost_total")
    assert (loop.labels["agenteval_loop_kind"], loop.labels["gen_ai_agent_name"], loop.value) == (
        "identical_call", "planner", 2.0,
    )  # fmt: skip
    assert [each.value for each in samples(page, "agenteval_agent_cost_total")] == [2.5]


def test_a_collector_with_a_judge_tells_of_it(tmp_path: Path) -> None:
    settings = {"base_url": "http://127.0.0.1:9", "budget": {"requests_per_hour": 1000, "tokens_per_day": 1_000_000}}
    with RunningCollector(tmp_path, judge=settings) as collector:
        collector.send(traces(turn(1, "Where is it?", "Here.")))
        eventually(lambda: samples(collector.get("/metrics"), "agenteval_judge_paused")[0].value == 1, within=60)
        page = collector.get("/metrics")
    limits = {
        each.labels["agenteval_judge_budget"]: each.value for each in samples(page, "agenteval_judge_budget_limit")
    }
    assert limits == {"requests_per_hour": 1000, "tokens_per_day": 1_000_000}
    used = {each.labels["agenteval_judge_budget"] for each in samples(page, "agenteval_judge_budget_used")}
    assert used == limits.keys()
    assert {each.labels["agenteval_result"] for each in samples(page, "agenteval_judge_cache_lookups_total")} == {
        "hit", "miss",
    }  # fmt: skip
