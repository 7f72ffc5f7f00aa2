"""Time from the end of a root span to its score while one session has far more traces waiting than can be scored.

The heavy session sends all of its traces at once. Traces of other sessions are sent one after the other, until the last
heavy trace is scored. The baseline is the time that a commit of heavy traces takes in the same run.

    python -m benchmarks.fairness [--heavy N] [--json]
"""

import threading
import time

import grpc

from benchmarks.growing import requests, trace
from benchmarks.harness import arguments, collector, report, send
from benchmarks.latency import WARM_UP, Agent, coherence, percentiles
from benchmarks.workload.generator import generate
from benchmarks.workload.plan import plan

SPANS = 10
BATCH = 64
"""The most traces in a commit of the collector."""
OTHERS = 400
"""Conversations of other sessions, each with some traces. There are more than are sent."""


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, heavy=2_000)
    others = iter([(each.session_id, of) for each in generate(OTHERS, seed=1) for of in plan(each)])
    began_at = time.time_ns()
    bodies = list(requests(trace("heavy", number, SPANS, began_at + number * 10**9) for number in range(given.heavy)))
    found: list[float] = []
    with collector() as served, grpc.insecure_channel(served.address) as channel:
        scores = coherence(channel)
        agent = Agent(served, scores)
        alone = agent.latencies([next(others) for _ in range(3 * WARM_UP)])[WARM_UP:]
        all_scored = served.scored_traces() + given.heavy
        sender = threading.Thread(target=send, args=(served.address, bodies))
        started = time.perf_counter()
        sender.start()
        while served.scored_traces() < all_scored + len(found):
            found += agent.latencies([next(others)])
        took = time.perf_counter() - started
        sender.join()
        agent.close()
        scores.close()
    report(
        "Root span end to stored coherence score beside one heavy session",
        {
            **percentiles("alone", alone),
            "traces of the heavy session": given.heavy,
            "until all of them are scored, s": took,
            "a commit of them, ms": took / given.heavy * BATCH * 1e3,
            "traces of others": len(found),
            **percentiles("beside", found),
            "beside, longest, ms": max(found),
        },
        as_json=given.json,
    )


if __name__ == "__main__":
    main()
