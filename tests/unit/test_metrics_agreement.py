"""Agreement of scores with labels, against scipy, textbook values and plain counting."""

import math
from itertools import product
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from otel_agenteval.metrics.agreement import (
    AGREEMENT_METRICS,
    Agreement,
    Half,
    LabelledScore,
    _Values,
    agreement,
)
from otel_agenteval.metrics.cross_table import TABLE_METRICS, CrossTable

VALUES = st.sampled_from([0.0, 0.2, 0.25, 0.5, 0.7, 1.0])
SESSIONS = st.sampled_from(["a", "b", "c", "d", "e"])
PAIRS = st.lists(
    st.builds(LabelledScore, VALUES, VALUES, st.just(0.5), st.integers(0, 5), SESSIONS), min_size=10, max_size=16
)


def pairs(*rows: tuple[float, float], threshold: float | None = 0.5) -> list[LabelledScore]:
    """Each in a session of its own."""
    return [LabelledScore(score, label, threshold, at, str(at)) for at, (score, label) in enumerate(rows)]


def test_kappa_of_a_textbook() -> None:
    """20 both yes, 5 and 10 apart, 15 both no: kappa is 0.4."""
    rows = [(1.0, 1.0)] * 20 + [(1.0, 0.0)] * 5 + [(0.0, 1.0)] * 10 + [(0.0, 0.0)] * 15
    found = agreement(pairs(*rows))
    assert found.metrics["kappa"] == pytest.approx(0.4)
    low, high = found.intervals["kappa"]
    assert 0.1 < low < 0.4 < high < 0.7


@pytest.mark.parametrize(
    ("rows", "kappa"),
    [
        pytest.param([(0.9, 0.8), (0.1, 0.2)], 1.0, id="always of one mind"),
        pytest.param([(0.9, 0.2), (0.1, 0.8)], -1.0, id="never"),
        pytest.param([(0.9, 0.8), (0.9, 0.2)], 0.0, id="an evaluator that always passes tells nothing"),
        pytest.param([(0.5, 0.5), (0.49, 0.0)], 1.0, id="the threshold itself passes"),
    ],
)
def test_kappa(rows: list[tuple[float, float]], kappa: float) -> None:
    assert agreement(pairs(*rows * 5)).metrics["kappa"] == pytest.approx(kappa)


@pytest.mark.parametrize(
    ("given_", "undefined"),
    [
        pytest.param(pairs(), dict.fromkeys(AGREEMENT_METRICS, "no scored trace"), id="nothing"),
        pytest.param(
            pairs(*[(0.1, 0.9), (0.8, 0.2), (0.7, 0.3)] * 3),
            dict.fromkeys(AGREEMENT_METRICS, "not enough labels: 9 of 10"),
            id="nine labels",
        ),
        pytest.param(
            pairs(*[(0.1, 0.9), (0.8, 1.0)] * 5),
            dict.fromkeys(("kappa", "specificity"), "every labelled trace passes"),
            id="labels that all pass",
        ),
        pytest.param(
            pairs(*[(0.1, 0.1), (0.8, 0.2)] * 5),
            dict.fromkeys(("kappa", "sensitivity"), "every labelled trace fails"),
            id="labels that all fail",
        ),
        pytest.param(
            pairs(*[(0.1, 0.1), (0.8, 0.9)] * 5, threshold=None),
            dict.fromkeys(TABLE_METRICS, "threshold"),
            id="no threshold",
        ),
        pytest.param(
            pairs(*[(0.7, 0.1), (0.7, 0.9)] * 5),
            dict.fromkeys(("pearson", "spearman"), "every score"),
            id="equal scores",
        ),
    ],
)
def test_undefined_says_why(given_: list[LabelledScore], undefined: dict[str, str]) -> None:
    found = agreement(given_)
    assert {name for name, value in found.metrics.items() if value is None} == set(undefined) == set(found.reasons)
    assert set(found.intervals) == set(AGREEMENT_METRICS) - set(undefined)
    for name, reason in undefined.items():
        assert reason in found.reasons[name]


def _kappa_by_counting(rows: list[LabelledScore]) -> float | None:
    count = {
        cell: sum((pair.score >= 0.5, pair.label >= 0.5) == cell for pair in rows)
        for cell in product((True, False), repeat=2)
    }
    n = len(rows)
    scores, labels = count[True, True] + count[True, False], count[True, True] + count[False, True]
    if labels in (0, n):
        return None
    agreed = (count[True, True] + count[False, False]) / n
    chance = (scores * labels + (n - scores) * (n - labels)) / n**2
    return (agreed - chance) / (1 - chance)


@given(PAIRS)
def test_figures_are_those_of_scipy_and_of_counting(rows: list[LabelledScore]) -> None:
    found = agreement(rows).metrics
    kappa = _kappa_by_counting(rows)
    assert found["kappa"] == (None if kappa is None else pytest.approx(kappa))
    for name, passes in (("sensitivity", True), ("specificity", False)):
        alike = [(row.score >= 0.5) is passes for row in rows if (row.label >= 0.5) is passes]
        assert found[name] == (pytest.approx(sum(alike) / len(alike)) if alike else None)
    scores, labels = [pair.score for pair in rows], [pair.label for pair in rows]
    assert found["mean_absolute_difference"] == pytest.approx(np.abs(np.subtract(scores, labels)).mean())
    if len(set(scores)) > 1 and len(set(labels)) > 1:
        assert found["pearson"] == pytest.approx(stats.pearsonr(scores, labels)[0], abs=1e-9)
        assert found["spearman"] == pytest.approx(stats.spearmanr(scores, labels)[0], abs=1e-9)
    else:
        assert found["pearson"] is found["spearman"] is None


@given(PAIRS, st.data())
def test_a_weight_counts_a_pair_that_often(rows: list[LabelledScore], data: st.DataObject) -> None:
    """What the intervals rest on: a resample's figures are those of its pairs, written out."""
    weights = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    assume(sum(weights) >= 10)
    repeated = [pair for pair, times in zip(rows, weights, strict=True) for _ in range(times)]
    figures = _Values(rows).at(np.array([weights], dtype=float))
    for name, value in agreement(repeated).metrics.items():
        if name not in TABLE_METRICS:
            figure = float(figures[name][0])
            assert math.isnan(figure) if value is None else figure == pytest.approx(value, abs=1e-9)


def truth(rate: float, sensitivity: float, specificity: float) -> dict[str, float]:
    agreed = rate * sensitivity + (1 - rate) * specificity
    passing = rate * sensitivity + (1 - rate) * (1 - specificity)
    chance = passing * rate + (1 - passing) * (1 - rate)
    return {"sensitivity": sensitivity, "specificity": specificity, "kappa": (agreed - chance) / (1 - chance)}


@pytest.mark.slow  # A simulation.
@pytest.mark.parametrize("labels", [10, 20, 50, 100, 500])
@pytest.mark.parametrize(
    ("rate", "sensitivity", "specificity", "of_session", "alike"),
    [
        (0.5, 0.95, 0.95, 1, 0.0),
        (0.7, 0.85, 0.75, 3, 0.0),
        (0.9, 0.85, 0.75, 3, 0.5),
        (0.6, 0.7, 0.6, 2, 0.3),
        (0.8, 0.5, 0.5, 1, 0.0),
    ],
)
def test_intervals_hold_the_truth(
    labels: int, rate: float, sensitivity: float, specificity: float, of_session: int, alike: float
) -> None:
    """The traces of a session pass together the more, the more they are `alike`."""
    random = np.random.default_rng(5)
    session = np.arange(labels) // of_session
    true = truth(rate, sensitivity, specificity)
    held: dict[str, list[bool]] = {name: [] for name in true}
    for _ in range(800):
        shape = (1 - alike) / alike if alike else math.inf
        rates = random.beta(rate * shape, (1 - rate) * shape, labels) if alike else np.full(labels, rate)
        good = random.random(labels) < rates[session]
        passed = random.random(labels) < np.where(good, sensitivity, 1 - specificity)
        for name, (_, (low, high)) in CrossTable(passed, good, session).figures().items():
            held[name].append(low <= true[name] <= high)
    for name, each in held.items():
        assert sum(each) >= 0.92 * len(each), name


@pytest.mark.slow  # A simulation.
@pytest.mark.parametrize("labels", [10, 20, 50])
def test_intervals_of_correlations_and_of_the_difference_hold_the_truth(labels: int) -> None:
    """Scores and labels are uniform, the score that of the label with another one mixed in."""
    random = np.random.default_rng(6)

    def drawn(n: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        label = random.random(n)
        return 0.6 * label + 0.4 * random.random(n), label

    score, label = drawn(100_000)
    true = {
        "pearson": stats.pearsonr(score, label)[0],
        "spearman": stats.spearmanr(score, label)[0],
        "mean_absolute_difference": np.abs(score - label).mean(),
    }
    rounds = 150
    held = dict.fromkeys(true, 0)
    for _ in range(rounds):
        rows = zip(*(each.tolist() for each in drawn(labels)), strict=True)
        found = agreement(pairs(*rows)).intervals
        for name, value in true.items():
            held[name] += found[name][0] <= value <= found[name][1]
    assert min(held.values()) >= 0.92 * rounds, held


def test_few_sessions_do_not_tell_how_far_a_correlation_may_be_off() -> None:
    rows = [LabelledScore(0.1 * n, 0.1 * n, 0.5, 0, f"s{n % 7}") for n in range(11)]
    found = agreement(rows).intervals
    assert (found["pearson"], found["spearman"]) == ((-1.0, 1.0), (-1.0, 1.0))
    assert found["mean_absolute_difference"] == (0.0, 1.0)


def test_traces_of_one_session_tell_as_much_as_one() -> None:
    rows = [(0.9, 0.8), (0.1, 0.2)] * 20
    apart = agreement(pairs(*rows)).intervals["kappa"]
    together = agreement([LabelledScore(*row, 0.5, 0, "s") for row in rows]).intervals["kappa"]
    assert apart[0] > 0.8
    assert together[0] < 0.3


@given(PAIRS, st.randoms())
def test_the_order_of_labels_changes_nothing(rows: list[LabelledScore], random: Random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert agreement(shuffled) == agreement(rows)


@given(PAIRS)
def test_intervals_hold_their_figures(rows: list[LabelledScore]) -> None:
    found = agreement(rows)
    for name, (low, high) in found.intervals.items():
        assert -1.0 <= low <= found.metrics[name] <= high <= 1.0


def about(value: float) -> Any:
    return pytest.approx(value)


def test_drift_shows_in_the_halves() -> None:
    found: Agreement = agreement(pairs((0.9, 0.8), (0.7, 0.6), (0.3, 0.7), (0.2, 0.8), (0.1, 0.6)))
    assert found.halves is not None
    assert found.halves[0] == Half(n=2, first=0, last=1, mean_score=about(0.8), mean_label=about(0.7))
    assert found.halves[1] == Half(n=3, first=2, last=4, mean_score=about(0.2), mean_label=about(0.7))
    assert agreement(pairs((0.9, 0.8))).halves is None


@pytest.mark.parametrize(
    "arguments", [(1.1, 0.5, 0.5), (0.5, -0.1, 0.5), (0.5, math.nan, 0.5), (0.5, 0.5, 2.0), ("1", 0.5, 0.5)]
)
def test_values_out_of_range_are_refused(arguments: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="not a number in"):
        LabelledScore(*arguments, 0, "s")
