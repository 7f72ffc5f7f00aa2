"""Throughput and CPU of a collector with one process and with workers, in turn in the same run.

Both take the same requests as fast as they can, until every trace is scored. The CPU is that of the collector and of
its workers. The part of the collector alone says where more workers help no more: it is one process.

    python -m benchmarks.workers [--workers N] [--conversations N] [--rounds N] [--json]
"""

import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.request import urlopen

from benchmarks.harness import MIB, Result, Served, arguments, collector, report, send
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests

READY_WITHIN: Final = 60.0
_READY: Final = "agenteval_collector_workers "


class _Round(NamedTuple):
    """Seconds per span: of time, of CPU of the collector's own process, and of CPU of its workers."""

    elapsed: float
    front: float
    workers: float


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, workers=2, conversations=150, rounds=5)
    report("One process, and workers", measured(given.workers, given.conversations, given.rounds), as_json=given.json)


def measured(count: int, per_round: int, rounds: int) -> Result:
    """Measure `count` workers against one process, with this many conversations in each round."""
    with collector(_settings(1)) as alone, collector(_settings(count)) as shared:
        load = _Load()
        load.scored(alone, per_round)
        for _ in range(10):
            load.scored(shared, per_round)
            if _ready(shared) == count:
                break
        else:
            raise TimeoutError(f"{_ready(shared)} of {count} workers are ready")
        of_alone, of_shared = [], []
        for _ in range(rounds):
            of_alone.append(load.scored(alone, per_round))
            of_shared.append(load.scored(shared, per_round))
        memory = [_resident(pid) / MIB for pid in _children(shared.pid)]
        return {
            "spans/s, one process": 1 / _median(of_alone, "elapsed"),
            f"spans/s, {count} workers": 1 / _median(of_shared, "elapsed"),
            "throughput, ratio": statistics.median(
                one.elapsed / more.elapsed for one, more in zip(of_alone, of_shared, strict=True)
            ),
            "CPU a span, one process, us": 1e6 * _median(of_alone, "front"),
            "CPU a span, all processes, us": 1e6 * statistics.median(each.front + each.workers for each in of_shared),
            "CPU a span, ratio": statistics.median(
                (more.front + more.workers) / one.front for one, more in zip(of_alone, of_shared, strict=True)
            ),
            "CPU a span, collector beside workers, us": 1e6 * _median(of_shared, "front"),
            "CPU a span, a worker, us": 1e6 * _median(of_shared, "workers"),
            "spans/s where the collector is full": 1 / _median(of_shared, "front"),
            "workers that fill it": _median(of_shared, "workers") / _median(of_shared, "front"),
            "memory, collector, MiB": shared.resident_bytes / MIB,
            "memory, largest worker, MiB": max(memory),
        }


class _Load:
    """Conversations that no collector has had before."""

    def __init__(self) -> None:
        self._seed = 0
        self._scored: dict[int, int] = {}

    def scored(self, served: Served, conversations: int) -> _Round:
        """Send a round, and wait until it is scored."""
        self._seed += 1
        played = list(generate(conversations, seed=self._seed))
        bodies = list(requests(played, started_at=time.time_ns()))
        spans = sum(each.span_count for each in played)
        traces = self._scored[served.pid] = self._scored.get(served.pid, 0) + sum(len(each.turns) for each in played)
        children = _children(served.pid)
        front, workers, started = served.cpu_seconds, _cpu(children), time.perf_counter()
        send(served.address, bodies)
        served.wait_scored(traces)
        elapsed = time.perf_counter() - started
        return _Round(elapsed / spans, (served.cpu_seconds - front) / spans, (_cpu(children) - workers) / spans)


def _settings(workers: int) -> dict[str, str]:
    return {"AGENTEVAL_SERVER__WORKERS": str(workers)}


def _ready(served: Served) -> int:
    with urlopen(f"http://{served.web}/metrics", timeout=READY_WITHIN) as page:
        lines = page.read().decode().splitlines()
    return next((int(float(line.rsplit(" ", 1)[1])) for line in lines if line.startswith(_READY)), 0)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] + [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        if task.name != str(pid)
        for child in (task / "children").read_text().split()
    ]


def _cpu(pids: Iterable[int]) -> float:
    return sum(Served(pid, "", Path()).cpu_seconds for pid in pids)


def _resident(pid: int) -> int:
    return Served(pid, "", Path()).resident_bytes


def _median(rounds: Iterable[_Round], part: str) -> float:
    return statistics.median(getattr(each, part) for each in rounds)


if __name__ == "__main__":
    main()
