"""Wilson's interval, against scipy, and of means: whether it holds the truth."""

import numpy as np
import pytest
from scipy.stats import binomtest

from otel_agenteval.metrics.wilson import mean_interval, wilson


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


def test_fewer_units_make_it_wider() -> None:
    (low, high), (lower, higher) = wilson(0.8, 50), wilson(0.8, 50, units=5)
    assert lower < low < high < higher
