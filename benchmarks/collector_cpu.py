"""Collector CPU per span, as a ratio to a bare grpcio server that only parses the same requests.

Three processes take the same requests in turn, in several rounds of one run. The first is the bare server. The second
is the receiver with the log, which checks and commits a span before it acknowledges it. The third is the whole
collector, until every trace is scored.

    python -m benchmarks.collector_cpu [--conversations N] [--rounds N] [--json]
"""

import statistics
import time
from collections.abc import Sequence

from benchmarks.harness import Result, Served, arguments, collector, report, send, server
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests

SPANS_PER_REQUEST = 64
REPEATS = 8
"""Times that a round sends its requests to the two servers that only receive, because once is too short to measure."""


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, conversations=100, rounds=7)
    report("Collector CPU per span", measured(given.conversations, given.rounds), as_json=given.json)


def measured(per_round: int, rounds: int) -> Result:
    """Measure with this many conversations in each round."""
    used: dict[str, list[float]] = {"bare": [], "accept": [], "collector": []}
    spans = sizes = scored = 0
    with server("bare") as bare, server("accept") as accept, collector() as whole:
        for number in range(rounds + 1):
            conversations = list(generate(per_round, seed=number))
            bodies = list(requests(conversations, started_at=time.time_ns(), spans_per_request=SPANS_PER_REQUEST))
            count = sum(each.span_count for each in conversations)
            scored += sum(len(each.turns) for each in conversations)
            round_used = {
                "bare": cost(bare, bodies * REPEATS) / REPEATS,
                "accept": cost(accept, bodies * REPEATS) / REPEATS,
                "collector": cost(whole, bodies, scored),
            }
            if number == 0:
                continue  # what starts lazily and what is cached has warmed up
            spans += count
            sizes += sum(map(len, bodies))
            for name, seconds in round_used.items():
                used[name].append(seconds / count * 1e6)
    accepted, whole_ratios = ratios(used["accept"], used["bare"]), ratios(used["collector"], used["bare"])
    return {
        "spans": spans,
        "bytes per span": round(sizes / spans),
        "bare parse, us": statistics.median(used["bare"]),
        "accept + persist, us": statistics.median(used["accept"]),
        "whole collector, us": statistics.median(used["collector"]),
        "accept + persist, ratio": statistics.median(accepted),
        "accept + persist, ratio from": min(accepted),
        "accept + persist, ratio to": max(accepted),
        "whole collector, ratio": statistics.median(whole_ratios),
        "whole collector, ratio from": min(whole_ratios),
        "whole collector, ratio to": max(whole_ratios),
    }


def cost(served: Served, bodies: Sequence[bytes], scored: int = 0) -> float:
    """Return the CPU seconds of the server for the requests, until it has stored `scored` traces altogether."""
    before = served.cpu_seconds
    send(served.address, bodies)
    if scored:
        served.wait_scored(scored)
    return served.cpu_seconds - before


def ratios(costs: Sequence[float], baseline: Sequence[float]) -> list[float]:
    """Return the ratio of each round. Within a round, neighbours on the machine slow all servers down alike."""
    return [cost / base for cost, base in zip(costs, baseline, strict=True)]


if __name__ == "__main__":
    main()
