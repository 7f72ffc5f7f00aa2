"""When each alert on the collector and its judge fires, and a near miss of each, by promtool, on samples of 15 s."""

import shutil
from pathlib import Path

import pytest

from tests.support.alerting import check_alert, series, written
from tests.support.shown import TARGET

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("promtool") is None, reason="promtool is not installed (Debian: apt install prometheus)"
    ),
]


@pytest.mark.parametrize(
    ("paused", "at", "fires"),
    [
        pytest.param("1x60", "5m", True, id="for five minutes"),
        pytest.param("1x8 0 1x8 0 1x60", "5m", True, id="with tries in between"),
        pytest.param("1x60", "4m45s", False, id="not as long"),
        pytest.param("1x4 0x60", "6m", False, id="one failure"),
        pytest.param("0x60", "10m", False, id="a judge that answers"),
    ],
)
def test_a_judge_that_is_down(tmp_path: Path, paused: str, at: str, fires: bool) -> None:
    name = series("agenteval_judge_paused")
    check_alert(tmp_path, "JudgeDown", {name: paused}, at, TARGET if fires else None)


@pytest.mark.parametrize(("used", "fires"), [("91x60", True), ("90x60", False)])
def test_the_budget_of_the_judge(tmp_path: Path, used: str, fires: bool) -> None:
    labels = {**TARGET, "agenteval_judge_budget": "requests_per_hour"}
    values = {
        series("agenteval_judge_budget_used"): used,
        series("agenteval_judge_budget_limit"): "100x60",
        written("agenteval_judge_budget_limit", {**labels, "agenteval_judge_budget": "usd_per_day"}): "1x60",
    }
    check_alert(tmp_path, "JudgeBudget", values, "1m", labels if fires else None)


@pytest.mark.parametrize(
    ("age", "at", "fires"),
    [
        pytest.param("0+15x200", "20m15s", True, id="for twenty minutes"),
        pytest.param("0+15x200", "20m", False, id="not as long"),
        pytest.param("0+15x60 0x100", "20m", False, id="a trace that took as long as it may"),
    ],
)
def test_scoring_that_is_behind(tmp_path: Path, age: str, at: str, fires: bool) -> None:
    name = series("agenteval_collector_log_oldest_age_seconds")
    check_alert(tmp_path, "CollectorScoringBehind", {name: age}, at, TARGET if fires else None)


@pytest.mark.parametrize(("items", "fires"), [("0x20 1x60", True), ("0x60", False)])
def test_input_that_is_set_aside(tmp_path: Path, items: str, fires: bool) -> None:
    values = {
        written("agenteval_collector_quarantine", {**TARGET, "agenteval_kind": kind}): value
        for kind, value in {"request": "0x60", "trace": items}.items()
    }
    check_alert(tmp_path, "CollectorQuarantine", values, "6m", TARGET if fires else None)


@pytest.mark.parametrize(
    ("free", "at", "fires"),
    [
        pytest.param("40000000000-8000000x1000", "3h", True, id="full within a day"),
        pytest.param("400000000000-1000000x1000", "3h", False, id="full in two months"),
        pytest.param("40000000000-8000000x1000", "30m", False, id="too short a history"),
        pytest.param("500000000x1000", "16m", True, id="nearly full"),
        pytest.param("600000000x1000", "3h", False, id="small, and stays so"),
    ],
)
def test_a_disk_that_fills_up(tmp_path: Path, free: str, at: str, fires: bool) -> None:
    name = series("agenteval_collector_disk_free_bytes")
    check_alert(tmp_path, "CollectorDiskFull", {name: free}, at, TARGET if fires else None)


@pytest.mark.parametrize(
    ("lag", "at", "fires"),
    [
        pytest.param("0+30x200", "31m", True, id="two messages a second more, for half an hour"),
        pytest.param("0+30x200", "14m", False, id="not as long"),
        pytest.param("0+30x40 0x160", "31m", False, id="a trace that took as long as it may"),
        pytest.param("5000-10x200", "31m", False, id="what is made up for"),
    ],
)
def test_a_partition_that_falls_behind(tmp_path: Path, lag: str, at: str, fires: bool) -> None:
    name = series("agenteval_collector_partition_lag")
    labels = {**TARGET, "agenteval_topic": "traces", "agenteval_partition": "3"}
    check_alert(tmp_path, "CollectorPartitionBehind", {name: lag}, at, labels if fires else None)


@pytest.mark.parametrize(
    ("values", "at", "fires"),
    [
        pytest.param("0x20 3x100", "6m", True, id="some"),
        pytest.param("0x20 3x100", "18m", False, id="long ago"),
        pytest.param("3x100", "6m", False, id="before Prometheus began to scrape"),
    ],
)
def test_refused_telemetry(tmp_path: Path, values: str, at: str, fires: bool) -> None:
    spans = series("agenteval_collector_spans_rejected_total")
    check_alert(tmp_path, "CollectorSpansRefused", {spans: values}, at, TARGET if fires else None)
    requests = series("agenteval_collector_requests_refused_total")
    about = {**TARGET, "error_type": "Overloaded"}
    check_alert(tmp_path, "CollectorSpansRefused", {requests: values}, at, about if fires else None)


@pytest.mark.parametrize(
    ("up", "at", "fires"),
    [
        pytest.param("1x20 0x40", "7m15s", TARGET, id="for two minutes"),
        pytest.param("1x20 0x40", "7m", None, id="not as long"),
        pytest.param("1x20 0x3 1x40", "8m", None, id="a restart"),
        pytest.param("_x60", "10m", {"job": "agenteval"}, id="a job without a target"),
    ],
)
def test_a_collector_that_is_down(tmp_path: Path, up: str, at: str, fires: dict[str, str] | None) -> None:
    check_alert(tmp_path, "CollectorDown", {written("up", TARGET): up}, at, fires)
