"""Machines, partitions, disks and money for 1,000, 100,000 and 1,000,000 spans a second, and what gives out first.

A simulation plays the plan of each rate through: one shard, with its evaluators and its share of the load, event by
event.

    python -m benchmarks.capacity [--COST VALUE ...]
"""

import argparse
from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.capacity.costs import Costs
from benchmarks.capacity.model import Plan, ceilings, plan
from benchmarks.capacity.simulation import Seen, Shard

RATES: Final = (1_000, 100_000, 1_000_000)
MANY: Final = 64
"""A number of evaluators that is more than one schema can use."""
SECONDS: Final = 120
"""Seconds of a shard's time that the simulation plays through."""


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for each in fields(Costs):
        kind = int if isinstance(each.default, int) else float
        parser.add_argument(
            f"--{each.name.replace('_', '-')}", type=kind, default=each.default, help=f"[{each.default}]"
        )
    costs = Costs(**vars(parser.parse_args()))
    table = Table("spans a second", *(f"{rate:,}" for rate in RATES), title="What a rate takes")
    columns = [_column(plan(rate, costs), costs) for rate in RATES]
    for name in columns[0]:
        table.add_row(name, *(column[name] for column in columns))
    limits = Table("what", "spans a second", title="What gives out first, used to the full")
    for name, rate in ceilings(costs).items():
        limits.add_row(name, f"{rate:,.0f}")
    Console().print(table, limits)


def _column(made: Plan, costs: Costs) -> Mapping[str, str]:
    evaluators = made.evaluators // made.shards
    seen = Shard(costs, evaluators).run(made.rate / made.shards, SECONDS)
    full = Shard(costs, max(MANY, 4 * evaluators)).run(costs.schema_spans * 1.5, SECONDS)
    return {
        "shards (schema, topics)": f"{made.shards:,}",
        "processes: receive, assemble, evaluate": f"{made.receivers:,}, {made.assemblers:,}, {made.evaluators:,}",
        f"machines of {costs.cores} cores for them": f"{made.machines:,}",
        "partitions of spans and of traces, in a shard": f"{made.partitions} each",
        "brokers; disks": f"{made.brokers:,}; {made.broker_gb / 1e3:,.1f} TB",
        "PostgreSQL: cores (servers)": f"{made.store_cores:,} ({made.store_machines:,})",
        "PostgreSQL: disks": f"{made.store_gb / 1e3:,.1f} TB",
        "USD a month, without the judge": f"{made.usd:,.0f}",
        "the judge, USD a month": f"{made.judge_usd:,.0f}",
        "played through: stored of what was sent": f"{seen.rate / (made.rate / made.shards):.0%}",
        "played through: trace complete to stored, p50, p99": _waits(seen),
        "played through: the sums of a schema are locked": f"{seen.lock_used:.0%}",
        "played through: a schema takes at most, of the model's": f"{full.rate / costs.schema_spans:.0%}",
    }


def _waits(seen: Seen) -> str:
    return f"{seen.p50:.2f}, {seen.p99:.2f} s"


if __name__ == "__main__":
    main()
