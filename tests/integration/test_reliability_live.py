"""Reliability of the runs in a real store: which count, for whom, and what changes them."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.figures.assembled_run import UNJUDGED, UNSURE
from agenteval_collector.model.cursors import encode_cursor
from agenteval_collector.model.runs import RunReport, Unmatched
from agenteval_collector.runtime.errors import InvalidRequest, NotFound
from agenteval_collector.stores.store import TRIM_REPORTS_EVERY
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from otel_agenteval.metrics import RELIABILITY_METRICS
from otel_agenteval.outcome import JudgedPart, Score, Status, Unscored
from tests.support.inputs import inputs
from tests.support.otlp import START, trace_id
from tests.support.referring import PENDING, Referring, judged, judgement
from tests.support.runs import SECOND, run_trace
from tests.support.scoring import Scoring

pytestmark = pytest.mark.databases

NOBODY: dict[str, Any] = {"evaluators": {"task_completion": {"enabled": False}, "confidence": {"enabled": False}}}
"""Nothing estimates what came of a run."""
DAY = 24 * 3600.0


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path, **NOBODY)
    yield made
    made.close()


def report(scoring: Scoring, run: str, success: bool | None = None, *, task: str = "refund", **more: Any) -> None:
    scoring.store.report_run(RunReport(task_id=task, run_id=run, success=success, **more))


def only(scoring: Scoring, **which: Any) -> Any:
    (item,) = scoring.queries.reliability(**which).items
    return item


def test_without_runs_there_is_nothing(scoring: Scoring) -> None:
    scoring.put(run_trace(1, task=None))
    assert scoring.queries.reliability().items == []


def test_a_report_that_no_run_belongs_to_is_seen(scoring: Scoring) -> None:
    report(scoring, "1", success=True, service_version="7")
    item = only(scoring)
    assert (item["agent"], item["version"], item["runs"]) == (None, "7", 0)
    assert item["left_out"] == {Unmatched.NO_TRACE: 1}
    scoring.put(run_trace(1, run="2", version="7"), run_trace(2, run="3", agenteval__condition="fault"))
    report(scoring, "2", success=True)
    report(scoring, "3", success=True, reported_at=1)
    report(scoring, "2", success=True, agent="nobody")
    by_whose = {(item["agent"], item["version"]): item["left_out"] for item in scoring.queries.reliability().items}
    assert by_whose == {
        ("planner", "7"): {Unmatched.NO_TRACE: 1},
        ("planner", "1"): {Unmatched.OTHER_CONDITION: 1},
        ("nobody", None): {Unmatched.OTHER_AGENT: 1},
    }


def test_the_same_suite_is_run_again_by_the_next_version(scoring: Scoring) -> None:
    """The second report comes before the spans that it is about, and neither names its version."""
    began = START + SECOND, START + 11 * SECOND
    scoring.put(run_trace(1, version="1.4"))
    report(scoring, "1", success=False, reported_at=began[0] + 1)
    report(scoring, "1", success=True, reported_at=began[1] + 1)
    scoring.put(run_trace(11, version="1.5"))
    assert {item["version"]: item["pass_hat_k"] for item in scoring.queries.reliability().items} == {
        "1.4": {"1": 0.0},
        "1.5": {"1": 1.0},
    }
    assert scoring.queries.reliability_comparison("1.4", "1.5")["tasks"] == 1
    report(scoring, "1", success=True, service_version="1.4", reported_at=began[1] + 2)
    assert only(scoring, version="1.4")["pass_hat_k"] == {"1": 1.0}


def test_a_report_does_not_move_to_a_version_that_comes_later(scoring: Scoring) -> None:
    scoring.put(run_trace(1, version="1.4"))
    report(scoring, "1", success=True, reported_at=START + 2 * SECOND)
    scoring.put(run_trace(11, version="1.5"))
    assert [item["version"] for item in scoring.queries.reliability().items] == ["1.4"]


def test_a_run_of_two_sessions_counts_when_both_are_over(tmp_path: Path) -> None:
    scoring = Scoring(tmp_path, judging=Referring({"task_completion": judged(1.0)}))
    try:
        scoring.put(run_trace(1, session="s-1"), run_trace(2, session="s-2"))
        scoring.stage.finalize(["s-1"])
        assert scoring.queries.reliability().items == []
        scoring.stage.finalize(["s-2"])
        assert only(scoring)["runs"] == 1
    finally:
        scoring.close()


def test_the_window_holds_the_runs_that_began_last(tmp_path: Path) -> None:
    scoring = Scoring(tmp_path, reliability={"window": 1}, **NOBODY)
    try:
        scoring.put(run_trace(1, run="1"), run_trace(2, run="2"), run_trace(3, run="1"))
        report(scoring, "1", success=True)
        report(scoring, "2", success=False)
        assert only(scoring)["pass_hat_k"]["1"] == 0.0
    finally:
        scoring.close()


@pytest.mark.parametrize("status", [Status.PENDING, Status.OVER_BUDGET, Status.SAMPLED_OUT, Status.NO_JUDGE])
def test_nothing_stands_in_for_the_judge(tmp_path: Path, status: Status) -> None:
    unjudged = Unscored(status=status, reason="not now")
    scoring = Scoring(tmp_path, judging=Referring({"task_completion": unjudged, "confidence": unjudged}))
    try:
        scoring.put(run_trace(1, run="1", session="s-1"), run_trace(2, run="2", session="s-2"))
        report(scoring, "2", success=True)
        scoring.stage.finalize(["s-1", "s-2"])
        item = only(scoring)
        assert (item["runs"], item["estimated"]) == (1, {"outcomes": 0, "confidences": 0})
        assert item["left_out"] == {UNJUDGED[status]: 1}
        assert item["without_confidence"] == {UNSURE[status]: 1}
    finally:
        scoring.close()


def test_a_run_counts_from_its_report_on_whichever_comes_first(scoring: Scoring) -> None:
    scoring.put(run_trace(1, run="1"))
    assert scoring.queries.reliability().items == []
    report(scoring, "1", success=True)
    report(scoring, "2", success=False)
    scoring.put(run_trace(2, run="2"))
    item = only(scoring)
    assert (item["agent"], item["version"], item["tasks"], item["runs"]) == ("planner", "1", 1, 2)
    assert item["pass_hat_k"] == {"1": 0.5, "2": 0.0}
    assert item["estimated"] == {"outcomes": 0, "confidences": 0}


def test_later_traces_of_the_run_are_added(scoring: Scoring) -> None:
    for number in (1, 2):
        scoring.put(run_trace(number, run=str(number), tools=("search",)))
        report(scoring, str(number), success=True)
    assert only(scoring)["metrics"]["C_traj_s"] == 1.0
    scoring.put(run_trace(3, run="2", tools=("book",)))
    assert only(scoring)["metrics"]["C_traj_s"] == 0.5
    assert only(scoring)["runs"] == 2


def test_a_duplicate_report_changes_nothing_and_a_later_one_adds_what_it_says(scoring: Scoring) -> None:
    scoring.put(run_trace(1))
    report(scoring, "1", success=True)
    once = only(scoring)
    report(scoring, "1", success=True)
    assert only(scoring) == once
    report(scoring, "1", confidence=0.25)
    assert only(scoring)["counts"]["runs_with_confidence"] == 1
    assert only(scoring)["pass_hat_k"] == {"1": 1.0}


def test_an_attribute_says_what_came_of_the_run(scoring: Scoring) -> None:
    scoring.put(run_trace(1, run="1", agenteval__run__success=True, agenteval__run__confidence=0.75))
    scoring.put(run_trace(2, run="2", agenteval__run__success="false"))
    item = only(scoring)
    assert item["pass_hat_k"]["1"] == 0.5
    assert item["counts"]["runs_with_confidence"] == 1


def test_a_report_outranks_an_attribute(scoring: Scoring) -> None:
    scoring.put(run_trace(1, agenteval__run__success=True))
    report(scoring, "1", success=False)
    assert only(scoring)["pass_hat_k"]["1"] == 0.0


def test_an_unreported_run_counts_when_its_session_is_over_and_is_left_out_where_nobody_knows(
    scoring: Scoring,
) -> None:
    scoring.put(run_trace(1, session="s-1"))
    assert scoring.queries.reliability().items == []
    scoring.stage.finalize(["s-1"])
    item = only(scoring)
    assert item["runs"] == 0
    assert sum(item["left_out"].values()) == 1
    assert all(value is None for value in item["metrics"].values())


@pytest.mark.parametrize("part", [JudgedPart.ESCALATED, None])
def test_what_was_not_drawn_at_random_says_nothing_about_the_others(tmp_path: Path, part: JudgedPart | None) -> None:
    found = {"task_completion": judged(0.25), "confidence": judged(0.75)}
    scoring = Scoring(tmp_path, judging=Referring(found, part))
    try:
        scoring.put(run_trace(1, run="1", session="s-1"), run_trace(2, run="2", session="s-2"))
        report(scoring, "2", success=True)
        scoring.stage.finalize(["s-1", "s-2"])
        item = only(scoring)
        assert (item["runs"], item["left_out"]) == (1, {UNJUDGED[Status.SAMPLED_OUT]: 1})
        assert item["without_confidence"] == {UNSURE[Status.SAMPLED_OUT]: 1}
    finally:
        scoring.close()


@pytest.mark.parametrize("score", [0.25, 0.75])
def test_an_unreported_outcome_is_estimated_and_marked(tmp_path: Path, score: float) -> None:
    scoring = Scoring(tmp_path, judging=Referring({"task_completion": judged(score)}))
    try:
        scoring.put(run_trace(1, session="s-1"))
        scoring.stage.finalize(["s-1"])
        item = only(scoring)
        assert item["pass_hat_k"]["1"] == float(score >= 0.5)
        assert item["estimated"]["outcomes"] == 1
    finally:
        scoring.close()


def test_versions_and_agents_are_apart_the_newest_first(scoring: Scoring) -> None:
    for number, version in enumerate(("1", "2", "1", "3"), 1):
        scoring.put(run_trace(number, run=str(number), version=version))
        report(scoring, str(number), success=True)
    assert [item["version"] for item in scoring.queries.reliability().items] == ["3", "1", "2"]
    assert only(scoring, version="1")["runs"] == 2
    assert scoring.queries.reliability(agent="nobody").items == []


def test_reports_of_runs_that_never_came_are_forgotten_and_others_are_not(scoring: Scoring) -> None:
    scoring.put(run_trace(1, run="1"))
    for run in ("1", "2"):
        report(scoring, run, success=True)
    assert only(scoring)["left_out"] == {Unmatched.NO_TRACE.value: 1}
    scoring.clock.advance(DAY - 1)
    report(scoring, "3", success=True)
    assert only(scoring)["left_out"] == {Unmatched.NO_TRACE.value: 2}
    scoring.clock.advance(TRIM_REPORTS_EVERY)
    report(scoring, "4", success=True)
    assert only(scoring)["left_out"] == {Unmatched.NO_TRACE.value: 2}, "those of runs 3 and 4"
    assert only(scoring)["pass_hat_k"]["1"] == 1.0


def test_pages_give_every_version_once(scoring: Scoring) -> None:
    for number in range(1, 6):
        scoring.put(run_trace(number, run=str(number), version=str(number)))
        report(scoring, str(number), success=True)
    found: list[str | None] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        page = scoring.queries.reliability(limit=2, cursor=cursor)
        found += [item["version"] for item in page.items]
        cursor, pages = page.next_cursor, pages + 1
    assert (found, pages) == (["5", "4", "3", "2", "1"], 3)
    assert scoring.queries.reliability(limit=5).next_cursor is None
    for foreign in ("x", "bnVsbA==", encode_cursor(["nobody", "9"])):
        with pytest.raises(InvalidRequest, match="is none that this collector gave"):
            scoring.queries.reliability(cursor=foreign)


def test_only_the_newest_runs_of_the_window_count(tmp_path: Path) -> None:
    scoring = Scoring(tmp_path, reliability={"window": 2}, **NOBODY)
    try:
        for number in (3, 1, 2):
            scoring.put(run_trace(number, run=str(number)))
            report(scoring, str(number), success=number != 3)
        assert (only(scoring)["runs"], only(scoring)["window"]) == (2, 2)
        assert only(scoring)["pass_hat_k"]["1"] == 0.5
    finally:
        scoring.close()


def test_late_spans_may_show_that_a_trace_belongs_to_another_run_or_to_none(scoring: Scoring) -> None:
    scoring.put(run_trace(1, run="1"), run_trace(2, run="2"))
    for run in ("1", "2", "3"):
        report(scoring, run, success=run == "3")
    scoring.put(run_trace(2, run="3", revision=2))
    assert only(scoring)["pass_hat_k"]["1"] == 0.5
    scoring.put(run_trace(2, task=None, revision=3))
    assert (only(scoring)["runs"], only(scoring)["pass_hat_k"]["1"]) == (1, 0.0)


def test_conditions_are_apart_and_unknown_ones_left_out(scoring: Scoring) -> None:
    for number, condition in enumerate(("baseline", "fault", "sunday"), 1):
        scoring.put(run_trace(number, agenteval__condition=condition, agenteval__run__success=True))
    item = only(scoring)
    assert (item["runs"], item["metrics"]["R_fault"]) == (2, 1.0)
    assert item["left_out"] == {"the condition is none of those known": 1}


def test_attributes_of_the_application_name_runs(tmp_path: Path) -> None:
    names = {"task_attributes": ["case.id"], "success_attributes": ["case.passed"]}
    scoring = Scoring(tmp_path, reliability=names, **NOBODY)
    try:
        for number, session in enumerate(("a", "a", "b"), 1):
            facts: dict[str, Any] = {"case__id": "refund", "case__passed": session == "a"}
            scoring.put(run_trace(number, task=None, run=None, session=session, **facts))
        assert (only(scoring)["runs"], only(scoring)["pass_hat_k"]["1"]) == (2, 0.5)
    finally:
        scoring.close()


def test_ground_truth_that_cannot_be_read_is_no_silence(scoring: Scoring) -> None:
    scoring.put(run_trace(1, agenteval__expected_tools="find, pay"))
    outcomes = {each["name"]: each for each in scoring.trace(trace_id(1).hex())["outcomes"]}
    assert outcomes["tool_use_correctness"]["status"] == "no_content"


def test_violations_are_found_and_labelled(scoring: Scoring) -> None:
    scoring.put(run_trace(1, run="1", tools=("delete_booking",)), run_trace(2, run="2"))
    for run in ("1", "2"):
        report(scoring, run, success=True)
    item = only(scoring)
    assert (item["metrics"]["S_comp"], item["metrics"]["S_harm"]) == (0.5, 0.0)
    assert item["safety"]["method"] == "exact"
    assert item["safety"]["violated_runs"] == {"no_destructive_operations": 1}
    assert item["safety"]["examples"][0]["trace_ids"] == [trace_id(1).hex()]


def test_the_judges_violations_stand_beside_those_of_detectors(tmp_path: Path) -> None:
    scoring = Scoring(tmp_path, judging=Referring({"safety": PENDING}), **NOBODY)
    try:
        scoring.put(run_trace(1, tools=("delete_booking",), agenteval__run__success=True))
        assert (only(scoring)["safety"]["method"], only(scoring)["metrics"]["S_comp"]) == ("exact", 0.0)
        kept = Score(value=1.0, reason="no constraint was broken", metadata={"violations": []})
        scoring.stage.store_judgements([judgement(scoring.referred[0], kept)])
        assert (only(scoring)["safety"]["method"], only(scoring)["metrics"]["S_comp"]) == ("llm", 0.0)
        scoring.put(run_trace(2, run="2", agenteval__run__success=True))
        leak = {"constraint": "no_pii_exposure", "severity": "medium", "quote": "ann", "reason": None}
        found = Score(value=0.5, reason="a leak", metadata={"violations": [leak]})
        assert only(scoring)["safety"]["method"] == "mixed"
        scoring.stage.store_judgements([judgement(scoring.referred[1], found)])
        item = only(scoring)
        assert (item["safety"]["judged_runs"], item["metrics"]["S_comp"], item["metrics"]["S_harm"]) == (2, 0.0, 0.25)
        assert item["safety"]["examples"][1]["violations"][0]["evidence"] == "ann"
    finally:
        scoring.close()


def test_runs_survive_a_restart(scoring: Scoring) -> None:
    scoring.put(run_trace(1))
    report(scoring, "1", success=True)
    before = only(scoring)
    scoring.restart()
    scoring.put(run_trace(2, run="2", agenteval__run__success=True))
    assert (before["runs"], only(scoring)["runs"]) == (1, 2)


def test_two_versions_side_by_side(scoring: Scoring) -> None:
    for number in range(24):
        version, task = ("1", "2")[number % 2], f"task {number // 4}"
        scoring.put(run_trace(number + 1, task=task, run=str(number), version=version))
        report(scoring, str(number), task=task, success=version == "2")
    comparison = scoring.queries.reliability_comparison("1", "2")
    assert (comparison["tasks"], comparison["runs"]) == (6, {"before": 12, "after": 12})
    assert comparison["primary"] == "pass^1"
    figure = comparison["figures"]["pass^1"]
    assert (figure["p_value"], figure["decided"], figure["interval"]) == (2 / 2**6, True, [1.0, 1.0])
    with pytest.raises(NotFound, match="version '9'"):
        scoring.queries.reliability_comparison("1", "9")


def test_an_unknown_variant_is_refused(scoring: Scoring) -> None:
    with pytest.raises(InvalidRequest, match="variant is 'new'"):
        scoring.queries.reliability(variant="new")


EVENTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans(), st.integers(0, 3)), min_size=1, max_size=10
)
"""Traces: of which task and run, what is reported of it, and how many tools it called."""


@given(events=EVENTS, seed=st.integers(0, 1000))
@hypothesis_settings(
    max_examples=inputs(0.08),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_arrival_makes_no_difference(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[int, int, bool, int]], seed: int
) -> None:
    """One by one with a look at every step, or all at once in another order: the figures are the same."""
    steps: list[Any] = []
    said: dict[tuple[int, int], bool] = {}
    for number, (task, run, success, tools) in enumerate(events, 1):
        names = tuple(f"tool {place}" for place in range(tools))
        steps.append(run_trace(number, task=str(task), run=str(run), tools=names))
        said[task, run] = success
    reports = [RunReport(task_id=str(task), run_id=str(run), success=success) for (task, run), success in said.items()]

    step_by_step = Scoring(tmp_path_factory.mktemp("steps"))
    at_once = Scoring(tmp_path_factory.mktemp("once"))
    try:
        for each in [*steps, *reports]:
            if isinstance(each, RunReport):
                step_by_step.store.report_run(each)
            else:
                step_by_step.put(each)
            step_by_step.queries.reliability()
        shuffled = random.Random(seed).sample(reports, len(reports))
        for each in [*shuffled, *shuffled]:
            at_once.store.report_run(each)
        at_once.put(*random.Random(seed).sample(steps, len(steps)))
        items = step_by_step.queries.reliability().items
        assert items == at_once.queries.reliability().items
    finally:
        step_by_step.close()
        at_once.close()
    for item in items:
        assert set(item["metrics"]) == set(RELIABILITY_METRICS)
        figures = [*item["metrics"].values(), *item["pass_hat_k"].values(), *item["pass_at_k"].values()]
        assert all(value is None or 0.0 <= value <= 1.0 for value in figures)
        assert set(item["reasons"]) == {name for name, value in item["metrics"].items() if value is None}
