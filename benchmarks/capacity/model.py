"""The model: the machines and disks that a rate of spans needs, and the part that gives out first."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from benchmarks.capacity.costs import Costs

DEFAULT_PARTITIONS: Final = 12
"""Partitions of a topic by default (`log.partitions`)."""
TOPICS: Final = 2
"""Number of topics that keep the sent data: one for spans, one for traces."""
HOURS: Final = 730
"""Hours of a month."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The machines, partitions and disks for a rate.

    A shard is a schema with its topics: a tenant, or a part of a tenant that somebody has divided.
    """

    rate: float
    shards: int
    receivers: int
    assemblers: int
    evaluators: int
    partitions: int
    """Partitions of each of a shard's two topics."""
    machines: int
    """Machines for our processes."""
    brokers: int
    broker_gb: float
    """Gigabytes on the disks of all brokers together, copies included."""
    store_cores: int
    store_machines: int
    store_gb: float
    """Gigabytes of the store, without copies and without the write-ahead log."""
    usd: float
    """US dollars a month, without the judge."""
    judge_usd: float


def plan(rate: float, costs: Costs) -> Plan:
    """Return the plan for `rate` spans a second."""
    shards = ceil(rate / (costs.schema_spans * costs.utilisation))

    def processes(us: float) -> int:
        # At least two processes, because one may die. They are rounded up by shard, as shards do not share their work.
        return shards * max(2, ceil(rate / shards * us / 1e6 / costs.utilisation))

    evaluators = processes(costs.evaluate_us)
    machines = ceil((processes(costs.receive_us) + processes(costs.assemble_us) + evaluators) / costs.cores)
    # Brokers write each copy once. What they are asked for is mostly still in memory.
    broker_bytes = rate * costs.span_bytes * TOPICS * costs.replicas / costs.compression
    brokers = max(costs.replicas, ceil(broker_bytes / (costs.broker_mb * 1e6 * costs.utilisation)))
    broker_gb = broker_bytes * costs.log_hours * 3600 / 1e9
    store_cores = ceil(rate * costs.store_us / 1e6 / costs.utilisation)
    store_gb = rate / costs.spans_per_trace * costs.trace_bytes * costs.content_days * 86_400 / 1e9
    cores = machines * costs.cores + store_cores + brokers * costs.cores
    traces = rate / costs.spans_per_trace
    return Plan(
        rate=rate,
        shards=shards,
        receivers=processes(costs.receive_us),
        assemblers=processes(costs.assemble_us),
        evaluators=evaluators,
        # Twice as many as members, so that shares are about even.
        partitions=max(DEFAULT_PARTITIONS, 2 * evaluators // shards),
        machines=machines,
        brokers=brokers,
        broker_gb=broker_gb,
        store_cores=store_cores,
        store_machines=ceil(store_cores / costs.store_cores),
        store_gb=store_gb,
        usd=cores * costs.core_usd * HOURS + (broker_gb + store_gb) * costs.disk_usd,
        judge_usd=traces * costs.judged * costs.verdict_usd * HOURS * 3600,
    )


def ceilings(costs: Costs) -> Mapping[str, float]:
    """Return the most spans a second that each part takes, the lowest first: this part gives out first."""
    whole_us = costs.receive_us + costs.assemble_us + costs.evaluate_us
    found = {
        "one process that does all": 1e6 / whole_us,
        "one schema: its commits queue": costs.lock_spans,
        f"{DEFAULT_PARTITIONS} evaluators, by as many partitions": DEFAULT_PARTITIONS * 1e6 / costs.evaluate_us,
        f"one server of PostgreSQL with {costs.store_cores} cores": costs.server_spans,
        f"{costs.replicas} brokers": costs.broker_mb * 1e6 * costs.compression / (costs.span_bytes * TOPICS),
    }
    return dict(sorted(found.items(), key=lambda each: each[1]))
