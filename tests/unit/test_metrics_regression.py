"""Evidence that a rate has dropped, looked at after every trial."""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.alarms import first_alarm_of_rate, first_alarm_of_version
from otel_agenteval.metrics.regression import LEVEL, as_trial, regression_evidence

ENOUGH = 1 / LEVEL


def test_a_drop_from_nine_in_ten_to_eight_is_found_within_three_hundred() -> None:
    random = np.random.default_rng(3)
    found = [first_alarm_of_rate(random, 0.9, 0.8, 2000) or 2000 for _ in range(200)]
    assert np.median(found) <= 300


def test_half_of_the_level_finds_a_drop_within_two_hundred_and_four_hundred_sessions() -> None:
    """With constant looking: docs/quality.md has the power over 2,000 versions."""
    random = np.random.default_rng(11)
    found = 0
    for _ in range(200):
        before, passed = int(random.binomial(200, 0.9)), np.cumsum(random.random(400) < 0.8)
        looks = (regression_evidence(200, before, n, int(passed[n - 1]), 0.5) for n in range(20, 401, 20))
        found += any(evidence >= ENOUGH for evidence in looks)
    assert found >= 0.45 * 200


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_the_evidence_has_a_mean_of_one_at_most_if_nothing_dropped(rate: float) -> None:
    """Exact: all counts of 30 trials before and 40 after, with their chances."""
    before, after = binom.pmf(range(31), 30, rate), binom.pmf(range(41), 40, rate)
    mean = sum(before[c] * after[d] * regression_evidence(30, c, 40, d) for c in range(31) for d in range(41))
    assert mean <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.5, 0.9, 0.99])
def test_ten_thousand_looks_raise_no_more_false_alarms_than_the_level(rate: float) -> None:
    """`benchmarks.alarms` does it five hundred times."""
    random = np.random.default_rng(4)
    alarms = [first_alarm_of_rate(random, rate, rate, 10_000) is not None for _ in range(20)]
    assert sum(alarms) <= LEVEL * 20


@pytest.mark.slow  # A simulation.
def test_all_evidence_about_a_version_raises_no_more_false_alarms_than_one_level() -> None:
    random = np.random.default_rng(5)
    alarms = [first_alarm_of_version(random) is not None for _ in range(20)]
    assert sum(alarms) <= LEVEL * 20


def test_a_rate_that_rises_is_no_evidence() -> None:
    assert regression_evidence(1000, 800, 500, 460) < 1.0


def test_few_trials_before_prove_nothing() -> None:
    assert regression_evidence(3, 3, 20, 12) < ENOUGH < regression_evidence(1000, 1000, 20, 12)


@pytest.mark.parametrize("given", [(0, 0, 0, 0), (10, 0, 10, 0), (0, 0, 10, 0), (10, 10, 0, 0)])
def test_where_nothing_can_drop_there_is_no_evidence(given: tuple[int, int, int, int]) -> None:
    assert 0.0 < regression_evidence(*given) <= 1.0 + 1e-6


def test_evidence_beyond_all_doubt_is_a_number() -> None:
    assert ENOUGH < regression_evidence(100_000, 100_000, 100_000, 0) < float("inf")


@pytest.mark.parametrize("given", [(10, 11, 5, 5), (10, 5, 5, 6), (10, -1, 5, 5)])
def test_impossible_counts_are_refused(given: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="give 0 <= c <= n"):
        regression_evidence(*given)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share is"):
        regression_evidence(10, 10, 5, 5, share)


def test_a_smaller_share_of_the_level_asks_for_more() -> None:
    whole = regression_evidence(1000, 900, 200, 150)
    assert regression_evidence(1000, 900, 200, 150, 0.1) == pytest.approx(0.1 * whole)


def test_a_session_is_the_same_trial_at_every_look_and_succeeds_with_its_share() -> None:
    drawn = [as_trial(0.3, f"session-{n}") for n in range(4000)]
    assert drawn == [as_trial(0.3, f"session-{n}") for n in range(4000)]
    assert sum(drawn) / len(drawn) == pytest.approx(0.3, abs=0.02)
    assert all(as_trial(1.0, str(n)) and not as_trial(0.0, str(n)) for n in range(1000))
