"""Wilson's interval, against scipy, and of means: whether it holds the truth."""

import numpy as np
import pytest
from scipy.stats import binomtest

from otel_agenteval.metrics.wilson import Clusters, clustered_interval, difference_interval, mean_interval, wilson


@pytest.mark.parametrize(("successes", "n"), [(0, 20), (3, 20), (20, 20), (450, 500)])
def test_of_trials_it_is_scipys(successes: int, n: int) -> None:
    expected = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert wilson(successes / n, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("rate", [0.5, 0.7, 0.9, 0.95])
@pytest.mark.parametrize("runs", [1, 3, 10])
@pytest.mark.parametrize("n", [10, 20, 50, 100, 500])
def test_the_interval_of_a_mean_over_tasks_holds_the_true_mean(rate: float, runs: int, n: int) -> None:
    """Each value is the share of successes in some runs of a task, and tasks differ."""
    random = np.random.default_rng(8)
    rates = random.beta(4 * rate, 4 * (1 - rate), (1000, n))
    found = [mean_interval(values) for values in random.binomial(runs, rates) / runs]
    assert np.mean([low <= rate <= high for low, high in found]) >= 0.92


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_values_that_are_all_equal_count_as_trials(value: float) -> None:
    assert mean_interval(np.full(20, value)) == pytest.approx(wilson(value, 20, units=20))


@pytest.mark.parametrize("units", [None, *range(2, 30)])
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_rate_at_an_end_is_its_bound_whatever_rounding_does(rate: float, units: int | None) -> None:
    for worth in range(1, 200):
        low, high = wilson(rate, worth, units)
        assert (low if rate == 0 else high) == rate


def test_fewer_units_make_it_wider() -> None:
    (low, high), (lower, higher) = wilson(0.8, 50), wilson(0.8, 50, units=5)
    assert lower < low < high < higher


def clusters(trials: np.ndarray, hits: np.ndarray) -> Clusters:
    return Clusters(
        clusters=len(trials),
        trials=int(trials.sum()),
        hits=int(hits.sum()),
        trials_squared=int((trials**2).sum()),
        hits_squared=int((hits**2).sum()),
        trials_by_hits=int((trials * hits).sum()),
    )


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("n", [10, 30, 200])
def test_the_interval_of_a_share_over_clusters_holds_the_true_share(rate: float, n: int) -> None:
    """Clusters differ in size and in their rates, as sessions do."""
    random = np.random.default_rng(5)
    held = []
    for _ in range(600):
        trials = random.integers(1, 12, n)
        hits = random.binomial(trials, random.beta(4 * rate, 4 * (1 - rate), n))
        found = clustered_interval(clusters(trials, hits))
        assert found is not None
        held.append(found[0] <= rate <= found[1])
    assert np.mean(held) >= 0.92


def test_clusters_of_one_trial_have_the_interval_of_their_mean() -> None:
    hits = np.array([1] * 14 + [0] * 6)
    assert clustered_interval(clusters(np.ones(20, int), hits)) == pytest.approx(mean_interval(hits.astype(float)))


def test_one_cluster_has_no_interval() -> None:
    assert clustered_interval(clusters(np.array([9]), np.array([5]))) is None


def test_a_difference_of_rates_has_newcombes_interval() -> None:
    # The first example of the paper: 56/70 and 48/80, method 10.
    before, after = 48 / 80, 56 / 70
    found = difference_interval(before, wilson(before, 80), after, wilson(after, 70))
    assert found == pytest.approx((0.0524, 0.3339), abs=1e-4)
