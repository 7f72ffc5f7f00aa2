"""What a tenant and its keys may send, and how long they are told to wait."""

import pytest
from agenteval_collector.assembly.pace import Pace
from agenteval_collector.config.settings import QuotaConfig, QuotasConfig
from agenteval_collector.ingest.quotas import BURST, KEYS, LONGEST, Quotas
from agenteval_collector.model.callers import Caller
from agenteval_collector.runtime.errors import QuotaExceeded
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import ManualClock
from tests.support.otlp import trace_id

ANN, BOB = Caller("ann"), Caller("bob")


def quotas(clock: ManualClock, *, tenant: QuotaConfig | None = None, key: QuotaConfig | None = None) -> Quotas:
    return Quotas(QuotasConfig(tenant=tenant or QuotaConfig(), key=key or QuotaConfig()), clock)


def refusal(made: Quotas, caller: Caller) -> QuotaExceeded | None:
    try:
        made.admit(caller)
    except QuotaExceeded as error:
        return error
    return None


def test_without_a_quota_everything_is_taken() -> None:
    made = quotas(ManualClock())
    made.charge(ANN, 10**9, 10**12, {trace_id(1)})
    assert refusal(made, ANN) is None
    assert not made.counts_traces


@pytest.mark.parametrize(
    ("what", "charge"),
    [("spans", (1500, 0, 0)), ("bytes", (0, 1500, 0)), ("traces", (0, 0, 1500))],
)
def test_who_has_sent_too_much_is_told_how_long_to_wait(what: str, charge: tuple[int, int, int]) -> None:
    clock = ManualClock()
    made = quotas(clock, key=QuotaConfig(**{what: 100}))
    spans, size, count = charge
    made.charge(ANN, spans, size, {trace_id(number) for number in range(count)})
    error = refusal(made, ANN)
    assert error is not None
    assert f"the key 'ann' has sent more {what} than server.quotas.key.{what} allows" in str(error)
    assert error.retry_after == pytest.approx(5.0)
    assert refusal(made, BOB) is None
    clock.advance(error.retry_after)
    assert refusal(made, ANN) is None


def test_the_keys_of_a_tenant_share_its_quota() -> None:
    made = quotas(ManualClock(), tenant=QuotaConfig(spans=100))
    for caller in (ANN, BOB):
        made.charge(caller, 600, 0, set())
    assert "the tenant has sent more spans" in str(refusal(made, ANN))
    assert "the tenant has sent more spans" in str(refusal(made, BOB))


def test_a_trace_counts_once_however_many_requests_it_comes_in() -> None:
    made = quotas(ManualClock(), key=QuotaConfig(traces=1))
    for _ in range(100):
        made.charge(ANN, 1, 1, {trace_id(1)})
    assert refusal(made, ANN) is None
    made.charge(ANN, 1, 1, {trace_id(number) for number in range(2, 20)})
    assert refusal(made, ANN) is not None


def test_nobody_is_told_to_wait_for_longer_than_a_minute() -> None:
    made = quotas(ManualClock(), key=QuotaConfig(bytes=1))
    made.charge(ANN, 1, 10**9, set())
    error = refusal(made, ANN)
    assert error is not None
    assert error.retry_after == LONGEST


def test_keys_are_bounded() -> None:
    made = quotas(ManualClock(), key=QuotaConfig(spans=1))
    made.charge(ANN, 1000, 1, set())
    for number in range(KEYS):
        assert refusal(made, Caller(f"key-{number}")) is None
    assert refusal(made, ANN) is None


@given(
    rate=st.integers(1, 1000),
    requests=st.lists(st.tuples(st.floats(0.0, 20.0), st.integers(1, 5000)), min_size=1, max_size=50),
)
def test_over_any_time_no_more_is_taken_than_the_rate_allows(rate: int, requests: list[tuple[float, int]]) -> None:
    clock, taken, largest = ManualClock(), 0, 0
    begun = clock.monotonic()
    made = quotas(clock, key=QuotaConfig(spans=rate))
    for pause, spans in requests:
        clock.advance(pause)
        if refusal(made, ANN) is None:
            made.charge(ANN, spans, 0, set())
            taken, largest = taken + spans, max(largest, spans)
    # Besides what a pause has left, the last request may overdraw it, whatever its size.
    assert taken <= rate * (clock.monotonic() - begun + BURST) + largest + 1


def test_the_pace_is_that_of_the_newest_work() -> None:
    pace = Pace()
    assert pace.seconds_for(1000) is None
    pace.note(1000, 0.5)
    assert pace.seconds_for(1000) is None, "half a second says too little"
    pace.note(1000, 0.5)
    assert pace.seconds_for(1000) == pytest.approx(0.5)
    for _ in range(100):
        pace.note(100, 1.0)
    assert pace.seconds_for(1000) == pytest.approx(10.0, rel=0.1)
