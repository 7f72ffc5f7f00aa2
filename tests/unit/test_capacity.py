"""The model of capacity says what follows from its costs, and what a simulation of the same costs sees."""

from dataclasses import replace

import pytest

from benchmarks.capacity.costs import Costs
from benchmarks.capacity.model import ceilings, plan
from benchmarks.capacity.simulation import Shard

COSTS = Costs()


def test_a_thousand_times_the_rate_takes_a_thousand_times_the_bytes() -> None:
    small, large = plan(1_000, COSTS), plan(1_000_000, COSTS)
    assert large.store_gb == pytest.approx(1_000 * small.store_gb)
    assert large.broker_gb == pytest.approx(1_000 * small.broker_gb)


def test_one_of_each_may_die_at_any_rate() -> None:
    made = plan(1, COSTS)
    assert (made.receivers, made.assemblers, made.evaluators, made.brokers) == (2, 2, 2, COSTS.replicas)


@pytest.mark.parametrize("rate", [1_000, 100_000, 1_000_000])
def test_nothing_is_used_beyond_its_share(rate: float) -> None:
    made = plan(rate, COSTS)
    assert rate / made.shards <= COSTS.schema_spans * COSTS.utilisation
    assert rate * COSTS.evaluate_us / 1e6 <= made.evaluators * COSTS.utilisation
    assert made.evaluators / made.shards <= made.partitions


def test_a_schema_takes_as_many_spans_as_its_lock_leaves_time_for() -> None:
    costs = replace(COSTS, locked_ms=36, locked_trace_ms=1, commit_traces=64, spans_per_trace=2)
    assert costs.schema_spans == pytest.approx(64 / 0.1 * 2)


def test_a_schema_takes_no_more_than_its_server() -> None:
    costs = replace(COSTS, store_cores=1)
    assert costs.schema_spans == 1e6 / costs.store_us


def test_a_judgement_holds_the_lock_as_well() -> None:
    assert replace(COSTS, judged=0.1).schema_spans < COSTS.schema_spans


def test_what_gives_out_first_comes_first() -> None:
    found = ceilings(replace(COSTS, locked_ms=1_000))
    assert next(iter(found)) == "one schema: its commits queue"
    assert list(found.values()) == sorted(found.values())


def test_a_shard_that_was_planned_keeps_up() -> None:
    made = plan(100_000, COSTS)
    share = made.rate / made.shards
    seen = Shard(COSTS, made.evaluators // made.shards).run(share, 20)
    assert seen.rate == pytest.approx(share, rel=0.05)
    assert seen.p99 < 2


def test_a_shard_with_evaluators_enough_is_held_up_by_its_lock() -> None:
    """And stores then what the model says that the lock leaves time for."""
    seen = Shard(COSTS, 64).run(COSTS.lock_spans * 1.5, 20)
    assert seen.rate == pytest.approx(COSTS.lock_spans, rel=0.03)
    assert seen.lock_used == pytest.approx(1, abs=0.03)


def test_a_shard_with_too_few_evaluators_is_held_up_by_them() -> None:
    """One after another it evaluates and commits: neither goes on while the other is under way."""
    seen = Shard(COSTS, 1).run(COSTS.schema_spans, 20)
    batch = COSTS.commit_traces
    seconds = batch * COSTS.spans_per_trace * COSTS.evaluate_us / 1e6 + COSTS.committed_ms(batch) / 1e3
    assert seen.rate == pytest.approx(batch * COSTS.spans_per_trace / seconds, rel=0.05)
