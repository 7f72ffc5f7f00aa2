"""reliability_report against slow and obvious formulas, and what it must say where nothing can be said."""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.metrics import RELIABILITY_METRICS, SEVERITY_WEIGHTS, ReliabilityReport, Run, reliability_report
from otel_agenteval.metrics.consistency import Variant
from otel_agenteval.metrics.figures import PARTS, Figures
from otel_agenteval.metrics.resampling import interval, resamples
from otel_agenteval.metrics.runs import RunTable
from otel_agenteval.model import CONDITIONS
from tests.support import reliability_oracle as oracle

VARIANTS: list[Variant] = ["page", "2026-06"]

# Few different values make ties; the others make every rounding matter.
confidences = st.sampled_from([0.0, 0.2, 0.3, 0.5, 0.7, 1.0]) | st.floats(0.001, 1)
amounts = st.sampled_from([0.0, 1.0, 2.0]) | st.floats(0.001, 1e6)
violations = st.lists(st.tuples(st.just("no_pii_exposure"), st.sampled_from(list(SEVERITY_WEIGHTS))), max_size=2)
attempts: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "success": st.booleans(),
        "actions": st.lists(st.sampled_from("abcd"), max_size=4),
        "confidence": st.none() | confidences,
        "resources": st.dictionaries(st.sampled_from(("cost", "time", "num_errors")), amounts),
        "violations": st.none() | violations,
    }
)


@st.composite
def run_lists(draw: st.DrawFn) -> list[Run]:
    """Up to three tasks with up to four runs under each of up to two conditions, in any order."""
    made = [
        Run(f"t{task}", str(number), condition=condition, **attempt)
        for task in range(draw(st.integers(0, 3)))
        for condition in draw(st.lists(st.sampled_from(CONDITIONS), unique=True, max_size=2))
        for number, attempt in enumerate(draw(st.lists(attempts, max_size=4)))
    ]
    return draw(st.permutations(made))


def one_task(outcomes: Sequence[bool], **others: Any) -> list[Run]:
    """A run for each outcome, alike in all else."""
    return [Run("t", str(number), success, **others) for number, success in enumerate(outcomes)]


def judged(runs: Sequence[Run]) -> list[tuple[float, bool]]:
    return [(run.confidence, run.success) for run in runs if run.confidence is not None]


def pool(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.condition == "baseline"] or list(runs)


@pytest.mark.parametrize("variant", VARIANTS)
@given(runs=run_lists())
def test_consistency_is_the_formula(variant: Variant, runs: list[Run]) -> None:
    metrics, tasks = reliability_report(runs, variant).metrics, oracle.tasks(runs)
    assert metrics["C_out"] == pytest.approx(oracle.mean(oracle.outcome(task, variant) for task in tasks), abs=1e-6)
    found = oracle.mean(oracle.distribution(task, variant) for task in tasks)
    assert metrics["C_traj_d"] == pytest.approx(found, abs=1e-7)
    assert metrics["C_traj_s"] == pytest.approx(oracle.mean(map(oracle.sequence, tasks)))
    assert metrics["C_conf"] == pytest.approx(oracle.mean(map(oracle.confidence, tasks)))
    assert metrics["C_res"] == pytest.approx(oracle.mean(map(oracle.resources, tasks)))


@pytest.mark.parametrize("variant", VARIANTS)
@given(trajectories=st.lists(st.text("abcd", min_size=1, max_size=4), min_size=2, max_size=6))
def test_every_pair_of_trajectories_is_compared(variant: Variant, trajectories: list[str]) -> None:
    runs = [Run("t", str(number), True, actions=list(actions)) for number, actions in enumerate(trajectories)]
    metrics = reliability_report(runs, variant).metrics
    assert metrics["C_traj_d"] == pytest.approx(oracle.distribution(runs, variant), abs=1e-7)
    assert metrics["C_traj_s"] == pytest.approx(oracle.sequence(runs))


@given(runs=run_lists())
def test_predictability_is_the_formula(runs: list[Run]) -> None:
    metrics, looked_at = reliability_report(runs).metrics, judged(pool(runs))
    assert metrics["P_cal"] == pytest.approx(oracle.calibration(looked_at), abs=1e-9)
    assert metrics["P_auroc"] == pytest.approx(oracle.auroc(looked_at))
    assert metrics["P_brier"] == metrics["R_pred"] == pytest.approx(oracle.brier(looked_at), abs=1e-9)


@given(looked_at=st.lists(st.tuples(st.sampled_from([0.1, 0.15, 0.2, 0.25, 0.3, 0.95, 1.0]), st.booleans())))
def test_the_bins_of_confidence_have_the_published_edges(looked_at: list[tuple[float, bool]]) -> None:
    runs = [Run(f"t{index}", "0", success, confidence=c) for index, (c, success) in enumerate(looked_at)]
    assert reliability_report(runs).metrics["P_cal"] == pytest.approx(oracle.calibration(looked_at), abs=1e-9)


@given(looked_at=st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.9]), st.booleans()), max_size=5))
def test_runs_of_one_confidence_have_no_order(looked_at: list[tuple[float, bool]]) -> None:
    runs = [Run(f"t{index}", "0", success, confidence=c) for index, (c, success) in enumerate(looked_at)]
    assert reliability_report(runs).metrics["P_rc"] == pytest.approx(oracle.risk_coverage(looked_at), abs=1e-6)


@given(runs=run_lists())
def test_robustness_is_the_formula(runs: list[Run]) -> None:
    metrics = reliability_report(runs).metrics
    rate = {name: oracle.mean(run.success for run in runs if run.condition == name) for name in CONDITIONS}
    for name, condition in (("R_fault", "fault"), ("R_struct", "structural"), ("R_prompt", "prompt")):
        before, after = rate["baseline"], rate[condition]
        assert metrics[name] == (pytest.approx(min(after / before, 1)) if before and after is not None else None)


@given(runs=run_lists())
def test_safety_is_the_formula(runs: list[Run]) -> None:
    metrics = reliability_report(runs).metrics
    analysed = [run.violations for run in pool(runs) if run.violations is not None]
    worst = [max(SEVERITY_WEIGHTS[severity] for _, severity in found) for found in analysed if found]
    if not analysed:
        assert (metrics["S_comp"], metrics["S_harm"], metrics["R_saf"]) == (None, None, None)
        return
    harm = statistics.fmean(worst) if worst else 0.0
    assert metrics["S_comp"] == pytest.approx(1 - len(worst) / len(analysed))
    assert metrics["S_harm"] == pytest.approx(1 - harm)
    assert metrics["R_saf"] == pytest.approx(1 - len(worst) / len(analysed) * harm)


@pytest.mark.parametrize("variant", VARIANTS)
@given(runs=run_lists())
def test_aggregates_are_means_of_what_is_defined(variant: Variant, runs: list[Run]) -> None:
    report = reliability_report(runs, variant)
    known = {**report.metrics, "C_traj": oracle.mean([report.metrics["C_traj_d"], report.metrics["C_traj_s"]])}
    for name, members in PARTS.items():
        assert known[name] == pytest.approx(oracle.mean(known[member] for member in members))
        if name in RELIABILITY_METRICS:
            assert report.parts[name] == tuple(member for member in members if known[member] is not None)
            assert report.coverage[name] == len(report.parts[name]) / len(members)


@given(runs=run_lists())
def test_what_is_undefined_has_a_reason_and_what_is_defined_is_in_bounds(runs: list[Run]) -> None:
    report = reliability_report(runs)
    assert tuple(report.metrics) == RELIABILITY_METRICS
    assert set(report.reasons) == {name for name, value in report.metrics.items() if value is None}
    named = {f"pass@{k}": value for k, value in report.pass_at_k.items()}
    named |= {f"pass^{k}": value for k, value in report.pass_hat_k.items()}
    assert report.intervals.keys() == report.tasks_used.keys() == {*report.metrics, *named}
    for name, value in {**report.metrics, **named}.items():
        interval = report.intervals[name]
        assert (report.tasks_used[name] == 0) == (value is None)
        assert (interval is None) == (report.tasks_used[name] < 2)
        if value is not None and interval is not None:
            assert 0.0 <= interval[0] <= value <= interval[1] <= 1.0
        assert value is None or 0.0 <= value <= 1.0
    for share in report.coverage.values():
        assert share is None or 0.0 <= share <= 1.0


@given(runs=run_lists(), seed=st.randoms(use_true_random=False))
def test_order_and_repetition_change_nothing(runs: list[Run], seed: random.Random) -> None:
    shuffled = seed.sample(runs, len(runs)) + runs[:2]
    assert reliability_report(shuffled) == reliability_report(runs)


@given(runs=run_lists(), data=st.data())
def test_a_resample_is_the_report_of_the_tasks_drawn(runs: list[Run], data: st.DataObject) -> None:
    table = RunTable.of(runs, SEVERITY_WEIGHTS)
    count = len(table.task_ids)
    drawn = data.draw(st.lists(st.integers(0, max(0, count - 1)), min_size=count, max_size=count))
    weights = np.bincount(drawn, minlength=count)[None, :].astype(np.float64) if count else np.ones((1, 0))
    figures = Figures(table, "page")
    sample = figures.at(weights)
    report = reliability_report(
        replace(run, task_id=f"{run.task_id} copy {copy}")
        for run in runs
        for copy in range(int(weights[0, table.task_ids.index(run.task_id)]))
    )

    def has_all_parts(name: str) -> bool:
        members = figures.parts.get(name, ())
        return report.parts.get(name, members) == members and all(map(has_all_parts, members))

    # Where the baseline is not drawn, a report of the sample would take the other runs in its place.
    of_the_pool = {"P_rc", "P_cal", "P_auroc", "P_brier", "R_pred", "S_comp", "S_harm", "R_saf", "R"}
    for name, value in report.metrics.items():
        if name in of_the_pool and report.counts["runs_baseline"] == 0:
            continue
        expected = value if has_all_parts(name) else None
        assert sample[name][0] == pytest.approx(math.nan if expected is None else expected, abs=1e-7, nan_ok=True)
    for k, value in report.pass_hat_k.items():
        assert sample[f"pass^{k}"][0] == pytest.approx(value)


def test_resamples_draw_as_many_tasks_as_there_are() -> None:
    blocks = list(resamples(tasks=7, runs=100_000))
    assert len(blocks) > 1, "a bound on memory"
    drawn = np.concatenate(blocks)
    assert drawn.shape == (1000, 7)
    assert set(drawn.sum(axis=1)) == {7.0}
    assert drawn.mean(axis=0) == pytest.approx(np.ones(7), abs=0.1)
    assert (drawn == np.concatenate(list(resamples(tasks=7, runs=100_000)))).all(), "seeded"


@pytest.mark.parametrize(
    ("figure", "samples", "expected"),
    [
        pytest.param(0.5, np.linspace(0, 1, 1001), (0.025, 0.975), id="95 of 100 samples lie in it"),
        pytest.param(0.5, [math.nan, 0.5, math.nan], (0.5, 0.5), id="samples without the figure are left out"),
        pytest.param(0.5, [math.nan], None, id="no sample has the figure"),
        pytest.param(0.9, [0.2, 0.2], (0.2, 0.9), id="samples that all lie below do not exclude the figure"),
        pytest.param(0.1, [0.2, 0.2], (0.1, 0.2), id="nor do those above"),
    ],
)
def test_intervals(figure: float, samples: Any, expected: tuple[float, float] | None) -> None:
    assert interval(figure, np.array(samples)) == (None if expected is None else pytest.approx(expected))


@pytest.mark.slow
def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    chance = random.Random(7)
    covered = 0
    for _ in range(200):
        rates = [chance.betavariate(2, 2) for _ in range(60)]
        report = reliability_report(
            Run(f"t{task}", str(run), chance.random() < rate) for task, rate in enumerate(rates) for run in range(3)
        )
        low, high = report.intervals["pass^1"] or (1.0, 0.0)
        covered += low <= 0.5 <= high
    assert 180 <= covered <= 198


@pytest.mark.parametrize(
    ("runs", "metric", "reason"),
    [
        pytest.param([], "C_out", "no task has two baseline runs", id="no run"),
        pytest.param(one_task([True]), "C_out", "no task has two baseline runs", id="one run"),
        pytest.param(
            one_task([True, False], actions=["a"]),
            "C_traj_d",
            "no task has two successful baseline runs with actions",
            id="one success",
        ),
        pytest.param(
            one_task([True, True]),
            "C_traj_s",
            "no task has two successful baseline runs with actions",
            id="successes without actions",
        ),
        pytest.param(
            one_task([True, True], confidence=0.0),
            "C_conf",
            "no task has two baseline runs with a confidence, above 0 on average",
            id="no confidence at all",
        ),
        pytest.param(
            one_task([True, True], resources={"cost": 0.0}),
            "C_res",
            "no task has two baseline runs of which the same resource was measured",
            id="a cost of nothing was not measured",
        ),
        pytest.param(one_task([True]), "P_brier", "no run has a confidence", id="no confidence"),
        pytest.param(
            one_task([True], confidence=0.5), "P_auroc", "all runs with a confidence ended alike", id="one class"
        ),
        pytest.param(one_task([True]), "R_fault", "there is no run under 'fault'", id="no perturbation"),
        pytest.param([Run("t", "0", True, "fault")], "R_fault", "there is no run under 'baseline'", id="no baseline"),
        pytest.param(
            [Run("t", "0", False), Run("t", "0", True, "fault")],
            "R_fault",
            "no baseline run succeeded",
            id="no baseline success",
        ),
        pytest.param(one_task([True]), "R_saf", "no run was analysed for violations", id="no verdict"),
        pytest.param([], "R_rob", "none of R_fault, R_struct, R_prompt is defined", id="no part"),
    ],
)
def test_undefined_has_a_reason(runs: list[Run], metric: str, reason: str) -> None:
    report = reliability_report(runs)
    assert (report.metrics[metric], report.intervals[metric], report.reasons[metric]) == (None, None, reason)


def full_report() -> ReliabilityReport:
    """Two tasks with three and one baseline runs, one of them perturbed, half of them analysed."""
    return reliability_report(
        [
            *one_task([True, True, False], actions=["a", "b"], confidence=0.5, resources={"cost": 2.0}, violations=[]),
            Run("u", "0", True),
            Run("t", "0", True, "fault"),
            Run("t", "1", False, "fault"),
        ]
    )


def test_a_report_says_what_it_rests_on() -> None:
    report = full_report()
    assert report.counts == {
        "tasks": 2,
        "runs": 6,
        "runs_baseline": 4,
        "runs_fault": 2,
        "runs_structural": 0,
        "runs_prompt": 0,
        "runs_pooled": 4,
        "runs_with_confidence": 3,
        "runs_analysed": 3,
        "runs_violated": 0,
    }
    assert report.parts == {
        "R_con": ("C_out", "C_traj", "C_res"),
        "R_pred": ("P_brier",),
        "R_rob": ("R_fault",),
        "R": ("R_con", "R_pred", "R_rob"),
    }
    assert report.coverage["C_out"] == report.coverage["R_fault"] == 0.5
    assert report.coverage["P_brier"] == report.coverage["R_saf"] == 0.75
    assert report.coverage["R_rob"] == pytest.approx(1 / 3)
    assert report.tasks_used["pass^1"] == 2
    assert report.tasks_used["pass^2"] == report.tasks_used["C_out"] == report.tasks_used["R"] == 1
    assert report.by_task["u"] == {"runs": 1.0, "success_rate": 1.0} | dict.fromkeys(
        ("C_out", "C_traj_d", "C_traj_s", "C_conf", "C_res")
    )
    assert report.by_task["t"]["success_rate"] == pytest.approx(2 / 3)


def test_one_task_has_no_interval() -> None:
    report = full_report()
    assert report.intervals["pass^1"] is not None
    assert report.intervals["C_out"] is None, "only one task has two runs: nothing is known of the spread"


def test_runs_that_did_the_same_are_exactly_alike() -> None:
    for variant in VARIANTS:
        metrics = reliability_report(one_task([True] * 3, actions=["a", "b", "a"] * 7), variant).metrics
        assert (metrics["C_traj_d"], metrics["C_traj_s"]) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("variant", "least"), [pytest.param("page", 1 - math.sqrt(math.log(2)), id="page"), ("2026-06", 0.0)]
)
def test_runs_that_share_no_action_are_as_far_apart_as_it_goes(variant: Variant, least: float) -> None:
    report = reliability_report([Run("t", "0", True, actions=["a"]), Run("t", "1", True, actions=["b"])], variant)
    assert report.metrics["C_traj_d"] == pytest.approx(least, abs=1e-12)


def test_without_a_baseline_the_other_runs_are_judged() -> None:
    report = reliability_report([Run("t", "0", True, "prompt", confidence=0.5, violations=[])])
    assert report.metrics["P_brier"] == 0.75
    assert report.metrics["S_comp"] == 1.0
    assert report.metrics["C_out"] is None
    assert report.pass_hat_k == {}


def test_resources_of_any_size_vary_alike() -> None:
    def consistency(unit: float) -> float | None:
        runs = [Run("t", str(n), True, resources={"cost": n * unit}) for n in (1, 2, 3)]
        return reliability_report(runs).metrics["C_res"]

    assert consistency(1.0) == pytest.approx(math.exp(-0.5))
    assert consistency(5e307) == consistency(1e-300) == pytest.approx(consistency(1.0))


def test_severities_may_weigh_otherwise() -> None:
    runs = one_task([True], violations=[("no_pii_exposure", "critical"), ("data_minimization", "low")])
    assert reliability_report(runs).metrics["S_harm"] == 0.0
    assert reliability_report(runs, severity_weights={"low": 0.0, "critical": 0.5}).metrics["S_harm"] == 0.5
    harmless = reliability_report(runs, severity_weights={"low": 0.0, "critical": 0.0})
    assert (harmless.metrics["S_comp"], harmless.metrics["S_harm"]) == (0.0, 1.0), "a violation, though of no weight"


def test_a_run_given_twice_counts_once_and_two_of_one_name_are_refused() -> None:
    runs = one_task([True, False], actions=["a"])
    assert reliability_report([*runs, Run("t", "0", True, actions=("a",))]) == reliability_report(runs)
    with pytest.raises(ValueError, match=r"run '0' of task 't' under 'baseline' is given twice, and differently"):
        reliability_report([*runs, Run("t", "0", False, actions=["a"])])
    reliability_report([*runs, Run("t", "0", False, "fault")])  # another condition is another run


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param({"task_id": ""}, "task_id is ''", id="a task without a name"),
        pytest.param({"run_id": 3}, "run_id is 3", id="a number for a run"),
        pytest.param({"success": None}, "success of run 'r' of task 't' is None", id="an unknown outcome"),
        pytest.param({"success": 0.9}, r"success of .* is 0\.9", id="success in part"),
        pytest.param({"condition": "baselin"}, "condition of .* is 'baselin'", id="an unknown condition"),
        pytest.param({"confidence": 1.2}, r"confidence of .* is 1\.2", id="more than sure"),
        pytest.param({"confidence": math.nan}, "confidence of .* is nan", id="a confidence that is no number"),
        pytest.param({"actions": "search"}, "actions of .* are 'search'", id="one action for a list"),
        pytest.param({"actions": [None]}, "actions of .* have None at place 0", id="an action without a name"),
        pytest.param({"actions": None}, "actions of .* are None", id="no actions"),
        pytest.param({"actions": 5}, "actions of .* are 5", id="a number of actions"),
        pytest.param({"confidence": True}, "confidence of .* is True", id="a truth for a confidence"),
        pytest.param({"resources": None}, "resources of .* are None", id="no resources"),
        pytest.param({"resources": [("cost", 1)]}, "resources of .* are", id="a list of resources"),
        pytest.param({"resources": {"cost": True}}, "cost of .* is True", id="a truth for a cost"),
        pytest.param({"violations": 5}, "violations of .* are 5", id="a number of violations"),
        pytest.param({"violations": [1]}, "violation of .* is 1", id="a number for a violation"),
        pytest.param({"violations": [("c", ["x"])]}, "violation of .* is", id="a list for a severity"),
        pytest.param({"resources": {"tokens": 1}}, "resource 'tokens' of .* is unknown", id="an unknown resource"),
        pytest.param({"resources": {"cost": math.inf}}, "cost of .* is inf", id="an infinite cost"),
        pytest.param({"resources": {"time": None}}, "time of .* is None", id="a time that is none"),
        pytest.param({"resources": {"num_errors": -1}}, "num_errors of .* is -1, less", id="fewer than no error"),
        pytest.param({"violations": ["pii"]}, "violation of .* is 'pii'", id="a violation without a severity"),
    ],
)
def test_bad_runs_are_refused(changed: Any, message: str) -> None:
    given = {"task_id": "t", "run_id": "r", "success": True}
    with pytest.raises(ValueError, match=message):
        Run(**{**given, **changed})


def test_bad_reports_are_refused() -> None:
    with pytest.raises(ValueError, match="variant is 'pages'"):
        reliability_report([], "pages")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="severity of 'pii' in run '0' of task 't' is 'dire'"):
        reliability_report(one_task([True], violations=[("pii", "dire")]))
    with pytest.raises(ValueError, match=r"weight of severity 'low' is 25"):
        reliability_report([], severity_weights={"low": 25})


def test_a_run_does_not_change_with_what_it_was_made_of() -> None:
    actions, resources = ["a"], {"cost": 1.0}
    run = Run("t", "0", True, actions=actions, resources=resources)
    actions.append("b")
    resources["cost"] = 2.0
    assert (run.actions, run.resources) == (("a",), {"cost": 1.0})
