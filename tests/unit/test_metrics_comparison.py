"""Two versions side by side."""

import random
import re
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from otel_agenteval.metrics import RELIABILITY_METRICS, Run, compare_reliability, reliability_report


def version(rates: dict[str, float], runs: int = 10, **more: object) -> list[Run]:
    """Runs of each task, of which the given share succeeds."""
    return [
        Run(task_id=task, run_id=str(number), success=number < rate * runs, **more)  # type: ignore[arg-type]
        for task, rate in rates.items()
        for number in range(runs)
    ]


TASKS = "abcdefgh"
LOW = {task: rate / 10 for task, rate in zip(TASKS, (1, 3, 2, 0, 2, 1, 3, 2), strict=True)}
HIGH = {task: rate / 10 for task, rate in zip(TASKS, (6, 9, 7, 5, 8, 6, 7, 9), strict=True)}


def test_a_version_that_is_better_at_every_task_is_told_apart() -> None:
    comparison = compare_reliability(version(LOW), version(HIGH))
    figure = comparison.figures["pass^1"]
    assert comparison.primary == "pass^1"
    assert (figure.before, figure.after) == (pytest.approx(0.175), pytest.approx(0.7125))
    assert (figure.p_value, figure.decided) == (2 / 2**8, True)
    assert figure.interval is not None
    assert 0.0 < figure.interval[0] <= (figure.difference or 0.0) <= figure.interval[1]
    other = comparison.figures["pass^3"]
    assert other.interval is None
    assert other.p_value is not None
    assert other.p_value > 2 / 2**8, "it is corrected"


def test_the_same_runs_are_neither_better_nor_worse() -> None:
    comparison = compare_reliability(version(LOW), version(LOW))
    assert comparison.figures["pass^1"].p_value == 1.0
    assert comparison.figures["pass^1"].interval == (0.0, 0.0)
    assert not any(figure.decided for figure in comparison.figures.values())


def test_the_other_way_round_only_the_sign_changes() -> None:
    mixed = dict(zip(TASKS, (0.9, 0.1, 0.4, 0.5, 0.3, 0.2, 0.8, 0.1), strict=True))
    one, other = compare_reliability(version(LOW), version(mixed)), compare_reliability(version(mixed), version(LOW))
    for name in ("pass^1", "pass^3"):
        assert one.figures[name].p_value == other.figures[name].p_value
        assert one.figures[name].difference == pytest.approx(-(other.figures[name].difference or 0.0))


def test_the_figure_that_is_named_decides() -> None:
    """Successes become more, the costs of a run as different as before: the other figure finds nothing."""
    before, after = version(LOW, confidence=0.4), version(HIGH, confidence=0.4)
    assert compare_reliability(before, after).figures["pass^1"].decided
    by_other = compare_reliability(before, after, primary="P_auroc")
    assert by_other.figures["P_auroc"].interval is not None
    assert not any(figure.decided for figure in by_other.figures.values())


@pytest.mark.parametrize("name", ["pass^0", "pass^101", "pass@1", "C_traj", "success"])
def test_a_primary_figure_that_there_is_none_of_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"primary is '{re.escape(name)}', neither"):
        compare_reliability([], [], primary=name)


def test_a_primary_figure_of_more_runs_than_there_are_is_undefined() -> None:
    figure = compare_reliability(version(LOW), version(HIGH), primary="pass^30").figures["pass^30"]
    assert (figure.p_value, figure.decided, figure.reason) == (None, None, "it is undefined for both")


@pytest.mark.slow  # A simulation.
@pytest.mark.parametrize("tasks", [4, 14])
def test_equal_versions_are_told_apart_in_no_more_than_the_level(tasks: int) -> None:
    """The interval of their difference holds 0 in the others, and only there."""
    told = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        rates = random.beta(2, 1.2, tasks)
        comparison = compare_reliability(
            with_more(random, drawn(random, rates)), with_more(random, drawn(random, rates))
        )
        told += any(figure.decided for figure in comparison.figures.values())
        figure = comparison.figures["pass^1"]
        assert figure.interval is not None
        assert figure.decided != (figure.interval[0] <= 0.0 <= figure.interval[1]) or 0.0 in figure.interval
    assert told <= 6, "of 60, where 3 are to be expected"


@pytest.mark.slow  # A simulation.
@pytest.mark.parametrize("tasks", [8, 20])
def test_the_interval_holds_the_difference_between_versions_of_such_tasks(tasks: int) -> None:
    held = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        before = random.beta(4, 2, tasks)
        # On average over all such tasks, half of what was reached before is reached after.
        after = before * random.beta(2, 2, tasks)
        figure = compare_reliability(drawn(random, before), drawn(random, after)).figures["pass^1"]
        assert figure.interval is not None
        held += figure.interval[0] <= -1 / 3 <= figure.interval[1]
    assert held >= 0.92 * 200


def drawn(random: np.random.Generator, rates: npt.NDArray[np.float64], runs: int = 5) -> list[Run]:
    """Runs of tasks that succeed at these rates."""
    return [
        Run(task_id=str(task), run_id=str(number), success=bool(random.random() < rate))
        for task, rate in enumerate(rates)
        for number in range(runs)
    ]


def with_more(random: np.random.Generator, runs: list[Run]) -> list[Run]:
    """The runs with confidences, actions, costs and violations by chance, so that they have every figure."""
    return [
        replace(
            run,
            confidence=float(random.beta(4, 2) if run.success else random.beta(2, 2)),
            actions=tuple("abc"[at] for at in random.integers(0, 3, 3)),
            resources={"cost": float(random.lognormal())},
            violations=[] if random.random() < 0.8 else [("c", "low")],
        )
        for run in runs
    ]


def test_only_tasks_in_common_are_compared() -> None:
    comparison = compare_reliability(version({**LOW, "easy": 1.0}), version({**HIGH, "hard": 0.0}))
    assert comparison.tasks == 8
    assert (comparison.runs_before, comparison.runs_after) == (80, 80)
    assert comparison.figures["pass^1"].before == pytest.approx(0.175)


def test_figures_are_those_of_a_report_over_the_tasks_in_common() -> None:
    before, after = version(LOW, confidence=0.5), version(HIGH, confidence=0.7)
    comparison = compare_reliability(before, after)
    for name in RELIABILITY_METRICS:
        compared = comparison.figures[name]
        assert compared.before == reliability_report(before).metrics[name]
        assert compared.after == reliability_report(after).metrics[name]


@pytest.mark.parametrize(
    ("before", "after", "name", "reason"),
    [
        pytest.param(version(LOW), version(HIGH), "P_brier", "it is undefined for both", id="neither has it"),
        pytest.param(
            version(LOW, confidence=0.5), version(HIGH), "P_brier", "it is undefined for the one after", id="one has it"
        ),
        pytest.param(
            version(LOW, confidence=0.5),
            version(HIGH),
            "R",
            "it rests on different parts: R_con, R_pred and R_con",
            id="an aggregate of different parts",
        ),
        pytest.param(version({"a": 0.5}), version({"b": 0.7}), "C_out", "it is undefined for both", id="no task"),
        pytest.param([], [], "C_out", "it is undefined for both", id="no run at all"),
    ],
)
def test_what_cannot_be_compared_says_why(before: list[Run], after: list[Run], name: str, reason: str) -> None:
    comparison = compare_reliability(before, after)
    figure = comparison.figures.get(name)
    assert figure is not None
    assert (figure.p_value, figure.decided, figure.interval) == (None, None, None)
    assert figure.reason == reason


def test_one_task_tells_nothing_apart_and_has_no_interval() -> None:
    figure = compare_reliability(version({"a": 0.0}), version({"a": 1.0})).figures["pass^1"]
    assert (figure.difference, figure.p_value, figure.decided, figure.interval) == (1.0, 1.0, False, None)


def test_the_order_of_runs_makes_no_difference() -> None:
    before, after = version(LOW, confidence=0.5), version(HIGH, confidence=0.6)
    shuffled = [*before], [*after]
    for runs in shuffled:
        random.Random(3).shuffle(runs)
    assert compare_reliability(*shuffled) == compare_reliability(before, after)


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(ValueError, match="variant is 'new'"):
        compare_reliability([], [], variant="new")  # type: ignore[arg-type]
