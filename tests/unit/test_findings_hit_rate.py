"""Whether error findings go with failures: counted, with intervals, and not said of too few sessions."""

import pytest
from agenteval_collector.figures.hit_rate import ENOUGH_ENDS, FailureRate, HitRate, hit_rate
from agenteval_collector.model.sessions import SessionEnding
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest


def test_each_rate_is_of_the_sessions_of_its_kind() -> None:
    ends = [SessionEnding(has_error=True, reported=number >= 8) for number in range(10)]
    ends += [SessionEnding(has_error=False, reported=number >= 3) for number in range(20)]
    assert hit_rate(ends) == HitRate(FailureRate(10, 8), FailureRate(20, 3))


def test_of_too_few_sessions_nothing_is_said() -> None:
    end = SessionEnding(has_error=True, reported=False)
    assert hit_rate([end] * (ENOUGH_ENDS - 1)) is None
    assert hit_rate([end] * ENOUGH_ENDS) is not None


def test_where_all_have_an_error_the_others_have_no_rate() -> None:
    found = hit_rate([SessionEnding(has_error=True, reported=True)] * ENOUGH_ENDS)
    assert found is not None
    assert (found.with_error.rate, found.without_error.rate, found.without_error.interval) == (0.0, None, None)


@given(of=st.integers(1, 5000), share=st.floats(0, 1))
def test_the_interval_is_wilsons(of: int, share: float) -> None:
    count = round(of * share)
    expected = binomtest(count, of).proportion_ci(0.95, method="wilson")
    assert FailureRate(of, count).interval == pytest.approx((expected.low, expected.high), abs=1e-9)
