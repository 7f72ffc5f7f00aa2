"""The judge's instruments, as a real scrape shows them."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from agenteval_collector.emit.judge import TOKEN_BOUNDS
from agenteval_collector.emit.meter import SECONDS
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.judge.ports import Usage
from agenteval_collector.model.judge_jobs import BudgetLevel, JudgeExchange
from prometheus_client.parser import text_string_to_metric_families

from tests.support.rendering import rendered

EXCHANGE = JudgeExchange(
    question="completion",
    version="1",
    model="gpt-5.4",
    asked_at=1,
    instructions="i",
    data="{}",
    reply="{}",
    problem=None,
    input_tokens=1000,
    output_tokens=50,
    usd=0.25,
    seconds=3.0,
)
WHAT = {
    "gen_ai_operation_name": "chat",
    "gen_ai_provider_name": "openai",
    "gen_ai_request_model": "gpt-5.4",
    "agenteval_judge_question": "completion",
}

Samples = dict[tuple[tuple[str, str], ...], float]


@pytest.fixture
def output() -> TelemetryOutput:
    return TelemetryOutput(version="9.8.7", instance_id="i-1", is_on_duty=lambda: True)


def samples(output: TelemetryOutput, name: str) -> Samples:
    page = rendered(output)
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    }


def labels(**more: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({**WHAT, **more}.items()))


def test_a_reply_has_a_duration_tokens_and_a_price(output: TelemetryOutput) -> None:
    output.judge(["gpt-5.4"]).asked(EXCHANGE, None)
    assert samples(output, "gen_ai_evaluation_client_operation_duration_seconds_sum") == {labels(): 3.0}
    assert samples(output, "gen_ai_evaluation_client_usage_tokens_sum") == {
        labels(gen_ai_token_type="input"): 1000,
        labels(gen_ai_token_type="output"): 50,
    }
    assert samples(output, "gen_ai_evaluation_client_usage_cost_total") == {labels(): 0.25}


def test_an_error_has_its_type_and_no_tokens(output: TelemetryOutput) -> None:
    failed = replace(EXCHANGE, reply=None, problem="no reply", input_tokens=None, output_tokens=None, usd=None)
    output.judge(["gpt-5.4"]).asked(failed, "timeout")
    assert samples(output, "gen_ai_evaluation_client_operation_duration_seconds_count") == {
        labels(error_type="timeout"): 1
    }
    assert not samples(output, "gen_ai_evaluation_client_usage_tokens_sum")
    assert not samples(output, "gen_ai_evaluation_client_usage_cost_total")


def test_a_malformed_reply_costs_as_much_as_a_good_one(output: TelemetryOutput) -> None:
    output.judge(["gpt-5.4"]).asked(EXCHANGE, "malformed")
    assert samples(output, "gen_ai_evaluation_client_usage_cost_total") == {labels(): 0.25}


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("gen_ai_evaluation_client_operation_duration_seconds_bucket", SECONDS),
        ("gen_ai_evaluation_client_usage_tokens_bucket", TOKEN_BOUNDS),
    ],
)
def test_buckets_are_those_of_the_conventions(output: TelemetryOutput, name: str, bounds: tuple[float, ...]) -> None:
    output.judge(["gpt-5.4"]).asked(EXCHANGE, None)
    found = {float(dict(each)["le"]) for each in samples(output, name)}
    assert sorted(found) == [*bounds, float("inf")]


def test_a_model_that_the_settings_do_not_name_has_no_label_of_its_own(output: TelemetryOutput) -> None:
    instruments = output.judge(["gpt-5.4"])
    for number in range(50):
        instruments.asked(replace(EXCHANGE, model=f"model-{number}"), None)
    assert samples(output, "gen_ai_evaluation_client_operation_duration_seconds_count") == {
        labels(gen_ai_request_model="_other"): 50
    }


def test_every_request_is_counted_by_what_came_of_it(output: TelemetryOutput) -> None:
    instruments = output.judge(["gpt-5.4"])
    for error_type in (None, "503", "503", "timeout"):
        instruments.requested("gpt-5.4", error_type)
    instruments.requested("strange", None)
    client = {name: value for name, value in WHAT.items() if name != "agenteval_judge_question"}

    def each(**more: str) -> tuple[tuple[str, str], ...]:
        return tuple(sorted({**client, **more}.items()))

    assert samples(output, "agenteval_judge_requests_total") == {
        each(error_type=""): 1,
        each(error_type="503"): 2,
        each(error_type="timeout"): 1,
        each(error_type="", gen_ai_request_model="_other"): 1,
    }


@dataclass
class Stage:
    waiting: int
    paused: bool = False


def test_what_waits_and_what_found_no_room(output: TelemetryOutput) -> None:
    instruments = output.judge([])
    stage: Any = Stage(waiting=7)
    instruments.observe_stage(stage)
    assert samples(output, "gen_ai_evaluation_client_queue_size") == {(): 7}
    assert samples(output, "gen_ai_evaluation_client_enqueue_errors_total") == {(): 0}
    stage.waiting = 3
    instruments.no_room()
    assert samples(output, "gen_ai_evaluation_client_queue_size") == {(): 3}
    assert samples(output, "gen_ai_evaluation_client_enqueue_errors_total") == {(): 1}


def test_a_judge_that_does_not_answer_is_paused(output: TelemetryOutput) -> None:
    stage: Any = Stage(waiting=0)
    output.judge([]).observe_stage(stage)
    assert samples(output, "agenteval_judge_paused") == {(): 0}
    stage.paused = True
    assert samples(output, "agenteval_judge_paused") == {(): 1}


def test_each_bound_of_the_budget_with_what_is_used_of_it(output: TelemetryOutput) -> None:
    levels = [BudgetLevel("requests_per_hour", 30, 100), BudgetLevel("usd_per_day", 0.25, 2.5)]
    output.judge([]).observe_budget(lambda: levels)
    by_bound = {
        name: {dict(key)["agenteval_judge_budget"]: value for key, value in samples(output, name).items()}
        for name in ("agenteval_judge_budget_used", "agenteval_judge_budget_limit")
    }
    assert by_bound == {
        "agenteval_judge_budget_used": {"requests_per_hour": 30, "usd_per_day": 0.25},
        "agenteval_judge_budget_limit": {"requests_per_hour": 100, "usd_per_day": 2.5},
    }


def test_questions_by_whether_their_answer_was_known(output: TelemetryOutput) -> None:
    instruments = output.judge([])
    lookups = "agenteval_judge_cache_lookups_total"
    assert samples(output, lookups) == {(("agenteval_result", "hit"),): 0, (("agenteval_result", "miss"),): 0}
    for known in (False, True, True):
        instruments.looked_up(known)
    assert samples(output, lookups) == {(("agenteval_result", "hit"),): 2, (("agenteval_result", "miss"),): 1}


def test_replies_by_whether_they_say_what_they_used(output: TelemetryOutput) -> None:
    instruments = output.judge(["gpt-5.4"])
    usages: list[Usage] = ["reported", "implausible", "implausible", "missing"]
    for usage in usages:
        instruments.answered("gpt-5.4", usage)
    found = samples(output, "agenteval_judge_usages_total")
    assert {dict(key)["agenteval_result"]: value for key, value in found.items()} == {
        "reported": 1, "implausible": 2, "missing": 1,
    }  # fmt: skip


def test_a_collector_without_a_judge_has_none_of_it(output: TelemetryOutput) -> None:
    page, _ = output.render({})
    assert b"gen_ai_evaluation_client" not in page
    assert b"gen_ai_client" not in page
    assert b"agenteval_judge" not in page
