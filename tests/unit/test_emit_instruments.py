from dataclasses import dataclass, replace
from typing import Any

import pytest
from agenteval_collector.emit.attributes import BoundedIdentities
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.model.counters import Counted
from agenteval_collector.model.logged_requests import LogLag
from agenteval_collector.model.news import News, WorstFinding
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from otel_agenteval.finding import Mode, Severity
from otel_agenteval.outcome import Failure, JudgedPart, Score, Status, SubjectKind, Unscored
from tests.support.evaluations import committed
from tests.support.findings import finding, loop_found
from tests.support.rendering import rendered
from tests.support.sessions import Past, Sessions, level

LOW = Score(value=0.2, reason="repeats itself")


def output(labels: BoundedIdentities | None = None, **more: Any) -> TelemetryOutput:
    return TelemetryOutput(version="9.8.7", instance_id="i-1", identities=labels, is_on_duty=lambda: True, **more)


def samples(telemetry: TelemetryOutput, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """What Prometheus would read: value by sorted labels."""
    page = rendered(telemetry)
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    }


def test_a_score_is_in_the_histogram_with_exactly_the_attributes_of_the_contract() -> None:
    telemetry = output()
    telemetry.evaluations.take_news(News(evaluations=[committed()]))
    labels = {
        "gen_ai_evaluation_name": "coherence",
        "gen_ai_agent_name": "planner",
        "service_name": "shop",
        "service_version": "1.2.0",
        "agenteval_subject": "trace",
        "agenteval_evaluation_method": "embedding",
    }
    assert samples(telemetry, "gen_ai_evaluation_score_sum") == {tuple(sorted(labels.items())): 0.75}
    buckets = {
        float(dict(labels)["le"]): count
        for labels, count in samples(telemetry, "gen_ai_evaluation_score_bucket").items()
    }
    assert sorted(buckets) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, float("inf")]
    assert buckets[0.7] == 0
    assert buckets[0.8] == 1


@pytest.mark.parametrize(
    ("changes", "status", "label"),
    [
        pytest.param({}, "scored", "pass", id="a score at its threshold or above passes"),
        pytest.param({"outcome": LOW}, "scored", "fail", id="a score below its threshold fails"),
        pytest.param({"threshold": None}, "scored", None, id="a score without a threshold is neither"),
        pytest.param(
            {"outcome": Unscored(status=Status.NO_CONTENT, reason="no text")},
            "no_content",
            None,
            id="what is unscored is counted by its status",
        ),
        pytest.param(
            {"outcome": Failure(error_type="timeout", reason="judge")},
            "failed",
            None,
            id="a failed evaluator is counted as failed",
        ),
    ],
)
def test_every_first_outcome_is_counted(changes: dict[str, Any], status: str, label: str | None) -> None:
    telemetry = output()
    telemetry.evaluations.take_news(News(evaluations=[committed(**changes)]))
    [(labels, count)] = samples(telemetry, "agenteval_evaluation_outcomes_total").items()
    assert count == 1
    assert dict(labels)["agenteval_status"] == status
    assert dict(labels).get("gen_ai_evaluation_score_label") == label
    assert bool(samples(telemetry, "gen_ai_evaluation_score_count")) == (status == "scored")


@pytest.mark.parametrize(
    ("subject", "first", "final", "count"),
    [
        pytest.param(SubjectKind.TRACE, True, False, 1, id="a trace counts at its first outcome"),
        pytest.param(SubjectKind.TRACE, False, False, 0, id="a later revision of a trace does not"),
        pytest.param(SubjectKind.SESSION, True, False, 0, id="a session that goes on does not count yet"),
        pytest.param(SubjectKind.SESSION, False, True, 1, id="a session counts when it is final"),
    ],
)
def test_a_subject_is_counted_once(subject: SubjectKind, first: bool, final: bool, count: int) -> None:
    telemetry = output()
    telemetry.evaluations.take_news(News(evaluations=[committed(subject=subject, first=first, final=final)]))
    assert sum(samples(telemetry, "agenteval_evaluation_outcomes_total").values()) == count
    assert sum(samples(telemetry, "gen_ai_evaluation_score_count").values()) == count


@pytest.mark.parametrize(
    ("changes", "loops"),
    [
        pytest.param({}, 1, id="an alarm"),
        pytest.param({"mode": Mode.OBSERVE}, 0, id="what is only to be observed"),
    ],
)
def test_alarms_are_counted(changes: dict[str, Any], loops: int) -> None:
    telemetry = output()
    telemetry.findings.take_news(News(counted=[loop_found(found_at=1_700_000_000_500_000_000, **changes)]))
    found = samples(telemetry, "agenteval_loops_total")
    assert sum(found.values()) == loops
    for labels in found:
        assert dict(labels) == {
            "agenteval_loop_kind": "identical_call",
            "gen_ai_agent_name": "planner",
            "service_name": "shop",
            "service_version": "1.2.0",
        }
    last = samples(telemetry, "agenteval_loop_last_seconds")
    assert list(last.values()) == [1_700_000_000.5] * loops


def test_findings_are_counted_by_kind_and_severity() -> None:
    telemetry = output()
    failed = finding(kind="tool_failed", agent=None, service_version=None)
    telemetry.findings.take_news(News(counted=[loop_found(), loop_found(mode=Mode.OBSERVE), failed, failed]))
    found = samples(telemetry, "agenteval_findings_total")
    by_kind = {
        (dict(labels)["agenteval_finding_kind"], dict(labels)["agenteval_finding_severity"]): count
        for labels, count in found.items()
    }
    assert by_kind == {
        ("identical_call", "error"): 1, ("identical_call", "warning"): 1, ("tool_failed", "warning"): 2,
    }  # fmt: skip
    assert {dict(labels)["gen_ai_agent_name"] for labels in found} == {"planner", ""}


def test_traces_and_sessions_are_counted_by_their_worst_finding() -> None:
    telemetry = output()
    worst = [WorstFinding(severity, "planner", "shop", "1.2.0") for severity in (None, Severity.ERROR, None)]
    telemetry.findings.take_news(News(traces=worst))
    telemetry.findings.take_news(News(sessions=worst[:2]))
    expected = {"agenteval_traces_total": {"none": 2, "error": 1}, "agenteval_sessions_total": {"none": 1, "error": 1}}
    for name, counts in expected.items():
        found = {dict(labels)["agenteval_worst"]: count for labels, count in samples(telemetry, name).items()}
        assert found == counts
    assert dict(next(iter(samples(telemetry, "agenteval_traces_total")))) == {
        "agenteval_worst": "none",
        "gen_ai_agent_name": "planner",
        "service_name": "shop",
        "service_version": "1.2.0",
    }


def test_what_rests_on_the_judge_is_counted_by_part() -> None:
    telemetry = output()
    parts = (None, JudgedPart.RANDOM, JudgedPart.RANDOM, JudgedPart.ESCALATED)
    telemetry.evaluations.take_news(News(evaluations=[committed(part=part) for part in parts]))
    for name in ("agenteval_evaluation_outcomes_total", "gen_ai_evaluation_score_count"):
        found = samples(telemetry, name)
        assert {dict(labels)["agenteval_part"]: count for labels, count in found.items()} == {
            "": 1, "random": 2, "escalated": 1,
        }  # fmt: skip


def test_session_levels_are_read_at_each_scrape() -> None:
    telemetry = output()
    telemetry.evaluations.observe_sessions(
        Sessions(
            level("planner", "shop", None, 7, 0), level("planner", "shop", "agent_reliability", 6, 2)
        ).session_levels,
        Past(sessions=1000, low=100),
    )
    whom = {"gen_ai_agent_name": "planner", "service_name": "shop"}
    scored = {**whom, "gen_ai_evaluation_name": "agent_reliability"}
    assert samples(telemetry, "agenteval_sessions_active") == {
        tuple(sorted({**whom, "gen_ai_evaluation_name": ""}.items())): 7,
        tuple(sorted(scored.items())): 6,
    }
    assert samples(telemetry, "agenteval_sessions_low") == {tuple(sorted(scored.items())): 2}
    assert samples(telemetry, "agenteval_sessions_low_limit") == {tuple(sorted(scored.items())): 4}


def test_sessions_of_agents_past_the_bound_add_up() -> None:
    telemetry = output(BoundedIdentities(agents=1))
    telemetry.evaluations.observe_sessions(
        Sessions(*(level(agent, "shop", "r", 5, 1) for agent in ("a", "b", "c"))).session_levels, Past()
    )
    low = samples(telemetry, "agenteval_sessions_low")
    assert {dict(labels)["gen_ai_agent_name"]: count for labels, count in low.items()} == {"a": 1, "_other": 2}
    limits = samples(telemetry, "agenteval_sessions_low_limit")
    assert {dict(labels)["gen_ai_agent_name"]: count for labels, count in limits.items()} == {"a": 5, "_other": 9}


def test_a_scrape_as_openmetrics_has_an_example_with_the_ids_of_the_trace_and_the_span() -> None:
    telemetry = output()
    scored = committed(trace_id="0af7651916cd43dd8448eb211c80319c", span_id="b7ad6b7169203331")
    telemetry.evaluations.take_news(News(evaluations=[scored]))
    page, content_type = telemetry.render({"accept": "application/openmetrics-text; version=1.0.0"})
    assert content_type.startswith("application/openmetrics-text")
    [example] = [
        sample.exemplar
        for family in openmetrics.text_string_to_metric_families(page.decode())
        for sample in family.samples
        if sample.name == "gen_ai_evaluation_score_bucket" and sample.exemplar
    ]
    assert example.labels == {"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"}
    assert example.value == 0.75


def test_a_hostile_agent_name_cannot_break_the_page() -> None:
    telemetry = output()
    names = ["\ud800", 'a"} 1\nevil_metric 1', "", None, "x" * 100_000]
    telemetry.evaluations.take_news(News(evaluations=[committed(agent=name) for name in names]))
    page, content_type = telemetry.render({})
    assert content_type.startswith("text/plain")
    assert len(page) < 50_000
    assert "evil_metric" not in {
        sample.name for family in text_string_to_metric_families(page.decode()) for sample in family.samples
    }
    counts = samples(telemetry, "gen_ai_evaluation_score_count")
    assert sorted(counts.values()) == [1, 1, 1, 2], "an empty name and none are one series"


def test_the_sdk_never_merges_what_the_budget_lets_through() -> None:
    telemetry = output(max_series=100_000)
    telemetry.evaluations.take_news(
        News(
            evaluations=[
                committed(name=f"evaluator_{e}", agent=f"agent-{n}", service=f"service-{n % 2}", service_version=f"{v}")
                for e in range(10)
                for n in range(100)
                for v in range(3)
            ]
        )
    )
    page = rendered(telemetry)
    series = [line for line in page.splitlines() if line.startswith("gen_ai_evaluation_score_count")]
    assert len(series) == 10 * 100 * 3, "more than the SDK's default limit of 2000"
    assert "otel_metric_overflow" not in page


def test_twenty_thousand_agents_make_a_bounded_page() -> None:
    telemetry = output()
    telemetry.evaluations.take_news(News(evaluations=[committed(agent=f"agent-{n}") for n in range(20_000)]))
    counts = samples(telemetry, "gen_ai_evaluation_score_count")
    assert len(counts) <= 101
    assert sum(counts.values()) == 20_000


def test_the_coverage_of_a_session_counts_with_its_final_score() -> None:
    telemetry = output()
    score, none = replace(LOW, coverage=0.75), Unscored(status=Status.NO_JUDGE, reason="no judge", coverage=0.25)
    of_session: dict[str, Any] = {"subject": SubjectKind.SESSION, "first": False}
    telemetry.evaluations.take_news(
        News(
            evaluations=[
                committed(outcome=score, final=True, **of_session),
                committed(outcome=none, final=True, **of_session),
                committed(outcome=score, **of_session),
                committed(outcome=score),
            ]
        )
    )
    [(labels, total)] = samples(telemetry, "agenteval_session_coverage_sum").items()
    assert total == 1.0
    assert dict(labels) == {
        "gen_ai_evaluation_name": "coherence",
        "gen_ai_agent_name": "planner",
        "service_name": "shop",
        "service_version": "1.2.0",
    }
    assert [*samples(telemetry, "agenteval_session_coverage_count").values()] == [2]


@dataclass(frozen=True)
class Queue:
    waiting: int


class Assembling:
    open_traces, late = 14, 1.25

    def lag(self) -> LogLag:
        return LogLag(requests=15, oldest_age=1.5)


def test_the_collector_tells_of_itself() -> None:
    telemetry = output()
    own_work = telemetry.own_work
    own_work.count(Counted.RECEIVED, 64)
    own_work.count(Counted.RECEIVED, 6)
    own_work.count(Counted.REJECTED, 5)
    own_work.count(Counted.LATE, 4)
    own_work.count(Counted.OWN_SCOPE, 3)
    own_work.count(Counted.REPLAYED, 2)
    own_work.count(Counted.RELEASED_EARLY)
    own_work.count(Counted.DROPPED, 9, "watch")
    own_work.count(Counted.SINK_FAILED, which="feed")
    own_work.observe_queues({"inbox": Queue(12), "watch": Queue(13)})
    assembling: Any = Assembling()
    own_work.observe_assembly(assembling, assembling)
    expected: dict[str, list[float]] = {
        "spans_received_total": [70],
        "spans_rejected_total": [5],
        "spans_late_total": [4],
        "spans_own_scope_total": [3],
        "requests_replayed_total": [2],
        "traces_released_early_total": [1],
        "queue_dropped_total": [9],
        "sink_failures_total": [1],
        "queue_size": [12, 13],
        "traces_open": [14],
        "log_lag": [15],
        "log_oldest_age_seconds": [1.5],
        "late_seconds": [1.25],
    }
    for name, values in expected.items():
        assert sorted(samples(telemetry, f"agenteval_collector_{name}").values()) == values, name
    assert samples(telemetry, "agenteval_collector_build_info") == {(("service_version", "9.8.7"),): 1}


def test_counters_of_spans_are_there_before_the_first_span() -> None:
    assert samples(output(), "agenteval_collector_spans_rejected_total") == {(): 0}
