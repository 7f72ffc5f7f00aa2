"""The number of low sessions that chance explains."""

import numpy as np
import pytest
from scipy.stats import betabinom

from benchmarks.session_alarms import false_alarms
from otel_agenteval.metrics.chance import LEVEL, low_limit


@pytest.mark.parametrize(("past", "past_low"), [(0, 0), (20, 2), (1000, 0), (1000, 100), (1000, 1000)])
def test_the_limit_is_the_exact_one(past: int, past_low: int) -> None:
    for sessions in (0, 1, 5, 20, 300):
        limit = low_limit(sessions, past, past_low)
        low = betabinom(sessions, 1 + past_low, 9 + past - past_low)
        assert low.sf(limit) <= LEVEL * (1 + 1e-9), "one more than the limit is no chance"
        assert limit == 0 or low.sf(limit - 1) > LEVEL, "the limit itself may be chance"


def test_a_bad_agent_needs_more_low_sessions_than_a_good_one() -> None:
    assert [low_limit(20, 1000, low) for low in (0, 20, 100, 300)] == [2, 4, 8, 14]


def test_few_sessions_of_a_new_agent_are_always_chance() -> None:
    assert [low_limit(n, 0, 0) for n in (1, 5, 6, 8, 10)] == [1, 5, 6, 7, 9]


def test_ten_thousand_sessions_have_a_limit_as_well() -> None:
    assert 1000 < low_limit(10_000, 1000, 100) < 1600


@pytest.mark.parametrize("given", [(-1, 0, 0), (1, 1, 2), (1, 0, -1)])
def test_impossible_counts_are_refused(given: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="give none below 0"):
        low_limit(*given)


@pytest.mark.slow
def test_an_agent_that_stays_as_it_is_hardly_ever_alarms() -> None:
    """`benchmarks.session_alarms` does it for years."""
    random = np.random.default_rng(7)
    assert sum(false_alarms(random, rate, per_hour=30, hours=200) for rate in (0.02, 0.1, 0.3)) <= 1
