"""Two versions side by side."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta

from otel_agenteval.metrics import RELIABILITY_METRICS, Run, compare_reliability, reliability_report
from otel_agenteval.metrics.comparison import probability_higher


def version(rates: dict[str, float], runs: int = 10, **more: object) -> list[Run]:
    """Runs of each task, of which the given share succeeds."""
    return [
        Run(task_id=task, run_id=str(number), success=number < rate * runs, **more)  # type: ignore[arg-type]
        for task, rate in rates.items()
        for number in range(runs)
    ]


LOW, HIGH = {"a": 0.1, "b": 0.3, "c": 0.2, "d": 0.0}, {"a": 0.6, "b": 0.9, "c": 0.7, "d": 0.5}


def test_a_version_that_is_better_at_every_task_is_better_for_certain() -> None:
    figure = compare_reliability(version(LOW), version(HIGH)).figures["pass^1"]
    assert (figure.before, figure.after) == (pytest.approx(0.15), pytest.approx(0.675))
    assert figure.probability_better == 1.0
    assert figure.interval is not None
    assert 0.0 < figure.interval[0] <= (figure.difference or 0.0) <= figure.interval[1]


def test_the_same_runs_are_neither_better_nor_worse() -> None:
    comparison = compare_reliability(version(LOW), version(LOW))
    assert comparison.figures["pass^1"].probability_better == 0.5
    assert comparison.figures["pass^1"].interval == (0.0, 0.0)
    assert comparison.success_probability_better == pytest.approx(0.5)


def test_the_other_way_round_the_chances_add_up_to_one() -> None:
    mixed = {"a": 0.9, "b": 0.1, "c": 0.4, "d": 0.5}
    one, other = compare_reliability(version(LOW), version(mixed)), compare_reliability(version(mixed), version(LOW))
    for name in ("pass^1", "pass^3"):
        chances = [each.figures[name].probability_better for each in (one, other)]
        assert sum(chance or 0.0 for chance in chances) == pytest.approx(1.0)


def test_only_tasks_in_common_are_compared() -> None:
    comparison = compare_reliability(version({**LOW, "easy": 1.0}), version({**HIGH, "hard": 0.0}))
    assert comparison.tasks == 4
    assert (comparison.runs_before, comparison.runs_after) == (40, 40)
    assert comparison.figures["pass^1"].before == pytest.approx(0.15)


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
        pytest.param(
            version({"a": 0.5}), version({"a": 0.7}), "pass^1", "fewer than two tasks are in common", id="one task"
        ),
        pytest.param(version({"a": 0.5}), version({"b": 0.7}), "C_out", "it is undefined for both", id="no task"),
        pytest.param([], [], "C_out", "it is undefined for both", id="no run at all"),
    ],
)
def test_what_cannot_be_compared_says_why(before: list[Run], after: list[Run], name: str, reason: str) -> None:
    comparison = compare_reliability(before, after)
    figure = comparison.figures.get(name)
    assert figure is not None
    assert figure.probability_better is None
    assert figure.reason == reason


def test_without_runs_there_is_no_chance_either() -> None:
    comparison = compare_reliability([], version(LOW))
    assert comparison.success_probability_better is None
    assert (comparison.success_before, comparison.success_after) == (None, None)


def test_the_order_of_runs_makes_no_difference() -> None:
    before, after = version(LOW, confidence=0.5), version(HIGH, confidence=0.6)
    shuffled = [*before], [*after]
    for runs in shuffled:
        random.Random(3).shuffle(runs)
    assert compare_reliability(*shuffled) == compare_reliability(before, after)


@given(
    n1=st.integers(0, 30), n2=st.integers(0, 30), share1=st.floats(0, 1), share2=st.floats(0, 1)
)  # fmt: skip
def test_posterior_chance_is_the_integral_that_it_stands_for(n1: int, n2: int, share1: float, share2: float) -> None:
    c1, c2 = math.floor(n1 * share1), math.floor(n2 * share2)
    later, earlier = beta(1 + c2, 1 + n2 - c2), beta(1 + c1, 1 + n1 - c1)
    expected, _ = quad(lambda x: later.pdf(x) * earlier.cdf(x), 0, 1)
    assert probability_higher(n1, c1, n2, c2) == pytest.approx(expected, abs=1e-7)


def test_posterior_chance_holds_for_thousands_of_runs() -> None:
    assert probability_higher(5000, 2500, 5000, 2500) == pytest.approx(0.5)
    assert 0.99 < probability_higher(5000, 2500, 5000, 2650) <= 1.0


@pytest.mark.parametrize("counts", [(1, 2, 1, 1), (1, -1, 1, 1), (2, 1, 3, 4)])
def test_more_successes_than_runs_are_refused(counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="successes: give 0 <= c <= n"):
        probability_higher(*counts)


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(ValueError, match="variant is 'new'"):
        compare_reliability([], [], variant="new")  # type: ignore[arg-type]
