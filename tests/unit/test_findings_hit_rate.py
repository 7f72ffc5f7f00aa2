"""Whether error findings go with failures: counted, with intervals, and not said of too few sessions."""

import math

import pytest
from agenteval_collector.findings.hit_rate import ENOUGH_ENDS, FailureRate, HitRate, hit_rate
from agenteval_collector.model.sessions import SessionEnd
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

Z = norm.ppf(0.975)


def test_each_rate_is_of_the_sessions_of_its_kind() -> None:
    ends = [SessionEnd(has_error=True, reported=number >= 8) for number in range(10)]
    ends += [SessionEnd(has_error=False, reported=number >= 3) for number in range(20)]
    assert hit_rate(ends) == HitRate(FailureRate(10, 8), FailureRate(20, 3))


def test_of_too_few_sessions_nothing_is_said() -> None:
    end = SessionEnd(has_error=True, reported=False)
    assert hit_rate([end] * (ENOUGH_ENDS - 1)) is None
    assert hit_rate([end] * ENOUGH_ENDS) is not None


def test_where_all_have_an_error_the_others_have_no_rate() -> None:
    found = hit_rate([SessionEnd(has_error=True, reported=True)] * ENOUGH_ENDS)
    assert found is not None
    assert (found.with_error.rate, found.without_error.rate, found.without_error.interval) == (0.0, None, None)


@given(of=st.integers(1, 5000), share=st.floats(0, 1))
def test_the_bounds_of_the_interval_solve_wilsons_equation(of: int, share: float) -> None:
    rate = FailureRate(sessions=of, failed=round(of * share))
    assert rate.rate is not None
    assert rate.interval is not None
    for bound in rate.interval:
        z = (rate.rate - bound) * math.sqrt(of)
        assert abs(z) == pytest.approx(Z * math.sqrt(bound * (1 - bound)), abs=1e-6)
