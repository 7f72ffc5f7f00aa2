"""CPU time of a step in the loop detectors, early and late in a trace, and the memory that a trace takes.

The steps are model and tool calls of three agents that do not loop. Their JSON arguments have some 200 characters;
results and replies have `--result` characters. The baseline of a late step is one of the first `--early` steps.

    python -m benchmarks.detectors [--early N] [--late N] [--result CHARACTERS] [--json]
"""

import json
import random
import time
import tracemalloc
from collections.abc import Iterator

from benchmarks.harness import arguments, report
from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import Step, StepKind, StepStarted

AGENTS = ("planner", "writer", "critic")
TOOLS = tuple(f"tool_{number}" for number in range(20))
ROUNDS = 30
SECOND = 1_000_000_000

Event = StepStarted | Step


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, early=100, late=100_000, result=1000)
    early = min(microseconds(given.early, given.result) for _ in range(ROUNDS))
    detectors = filled(given.late, given.result)
    late = min(microseconds(given.early, given.result, detectors) for _ in range(ROUNDS))
    report(
        f"Loop detectors, traces of {given.early} and of {given.late} steps, results of {given.result} characters",
        {
            "early step, us": early,
            "late step, us": late,
            "late step, of an early one": late / early,
            "memory after the early steps, KiB": kibibytes(given.early, given.result),
            "memory after the late steps, KiB": kibibytes(given.late, given.result),
        },
        as_json=given.json,
    )


def microseconds(count: int, result: int, detectors: Detectors | None = None) -> float:
    """Return the CPU time of one of `count` steps, with its start and its end.

    The steps are in a new trace, or follow the steps observed before.
    """
    detectors = detectors or Detectors("s-1", "t-1", RuleBook())
    planned = list(events(count, result))
    begun = time.process_time()
    for event in planned:
        detectors.observe(event)
    return (time.process_time() - begun) / count * 1e6


def filled(count: int, result: int) -> Detectors:
    """Return detectors that have observed `count` steps."""
    detectors = Detectors("s-1", "t-1", RuleBook())
    for event in events(count, result):
        detectors.observe(event)
    return detectors


def kibibytes(count: int, result: int) -> float:
    """Return the memory in KiB that detectors hold after `count` steps."""
    tracemalloc.start()
    detectors = filled(count, result)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del detectors
    return held / 1024


def events(count: int, result: int) -> Iterator[Event]:
    """Yield the start and the end of `count` steps. No two steps are alike; the same arguments give the same steps."""
    chance = random.Random(1)
    for number in range(count):
        kind = StepKind.TOOL if number % 2 else StepKind.MODEL
        name = chance.choice(TOOLS) if number % 2 else "model"
        agent, span_id = AGENTS[number % len(AGENTS)], f"{number:016x}"
        yield StepStarted(kind=kind, name=name, span_id=span_id, agent=agent, at=number * SECOND)
        yield Step(
            kind=kind,
            name=name,
            span_id=span_id,
            agent=agent,
            arguments=json.dumps({"id": number, "of": text(chance, 180)}) if number % 2 else None,
            result=found(chance, result) if number % 2 else text(chance, result),
            error="timeout" if chance.random() < 0.05 else None,
            started_at=number * SECOND,
            ended_at=(number + 1) * SECOND,
        )


def found(chance: random.Random, length: int) -> str:
    """Return a list of records as JSON of about `length` characters, as a tool would."""
    return json.dumps([{"id": chance.getrandbits(64), "price": 1.5, "name": "x" * 20} for _ in range(length // 76 + 1)])


def text(chance: random.Random, length: int) -> str:
    """Return a text of `length` characters that did not occur before."""
    return f"{chance.getrandbits(64):016x} " * (length // 17 + 1)


if __name__ == "__main__":
    main()
