"""Time and memory of a reliability report, beside the same one for half as many tasks.

Runs are made up. Most runs of each task succeed; these take the same steps, with a few steps changed, left out or
repeated. Memory is the peak of the report's own allocations, without the runs themselves. It is measured apart from the
time, because the tracing of allocations takes time.

    python -m benchmarks.reliability [--tasks N] [--runs N] [--steps N] [--json]
"""

import random
import time
import tracemalloc
from collections.abc import Sequence

from benchmarks.harness import MIB, arguments, report
from otel_agenteval.metrics import RESOURCES, Run, reliability_report
from otel_agenteval.model import CONDITIONS

TOOLS = tuple(f"tool_{number}" for number in range(20))
SEED = 1


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, tasks=1000, runs=10, steps=50)
    half, whole = (made_up(tasks, given.runs, given.steps) for tasks in (given.tasks // 2, given.tasks))
    reliability_report(half[: given.runs])  # what is loaded once is not the report's
    half_time, whole_time = seconds(half), seconds(whole)
    half_memory, whole_memory = peak_bytes(half), peak_bytes(whole)
    report(
        f"Reliability report, {given.tasks} tasks x {given.runs} runs x {given.steps} steps",
        {
            "time, s": whole_time,
            "time, of that for half the tasks": whole_time / half_time,
            "memory at the peak, MiB": whole_memory / MIB,
            "memory, of that for half the tasks": whole_memory / half_memory,
        },
        as_json=given.json,
    )


def made_up(tasks: int, runs: int, steps: int) -> list[Run]:
    """Return `runs` baseline runs of each task, and one run under every other condition.

    The same arguments give the same runs.
    """
    chance = random.Random(SEED)
    made = []
    for task in range(tasks):
        plan = chance.choices(TOOLS, k=steps)
        made += [
            Run(
                task_id=f"task-{task}",
                run_id=str(number),
                success=chance.random() < 0.8,
                actions=varied(plan, chance),
                confidence=round(chance.random(), 2),
                resources={name: chance.uniform(1.0, 2.0) for name in RESOURCES},
                violations=[("data_minimization", "low")] if chance.random() < 0.1 else [],
            )
            for number in range(runs)
        ]
        made += [
            Run(task_id=f"task-{task}", run_id="0", success=chance.random() < 0.7, condition=condition)
            for condition in CONDITIONS[1:]
        ]
    return made


def varied(plan: Sequence[str], chance: random.Random) -> list[str]:
    """Return `plan` with about one step in ten changed, repeated or left out."""
    steps: list[str] = []
    for step in plan:
        steps += chance.choices(([step], [chance.choice(TOOLS)], [step, step], []), weights=(27, 1, 1, 1))[0]
    return steps


def seconds(runs: Sequence[Run]) -> float:
    """Return the wall-clock seconds of a report, the best of three."""
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        reliability_report(runs)
        times.append(time.perf_counter() - begun)
    return min(times)


def peak_bytes(runs: Sequence[Run]) -> int:
    """Return the most bytes that a report has allocated at any time."""
    tracemalloc.start()
    reliability_report(runs)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


if __name__ == "__main__":
    main()
