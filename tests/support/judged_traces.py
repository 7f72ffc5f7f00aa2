"""A collector with traces that a judge looked at because they were drawn at random."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agenteval_collector.model.commit import Commit

from otel_agenteval.outcome import JudgedPart, Method, Score
from tests.support.evaluations import evaluation
from tests.support.otlp import trace_id, traces, turn
from tests.support.running_collector import RunningCollector

NAME = "task_completion"
TRACES = 24
REASON = "so says the judge"


def hex_id(number: int) -> str:
    return trace_id(number).hex()


def judge(running: RunningCollector, number: int, score: float, **changes: Any) -> None:
    """Score the trace of that number, as the judge would."""
    judged = evaluation(
        name=NAME,
        method=Method.LLM,
        part=JudgedPart.RANDOM,
        subject_id=hex_id(number),
        session_id=hex_id(number),
        outcome=Score(value=score, reason=REASON),
        **changes,
    )
    running.service.pipeline.base.store.commit(Commit(evaluations=[judged]))


@contextmanager
def judged_collector(folder: Path, said: str = "It was sent.", **sections: Any) -> Iterator[RunningCollector]:
    """`TRACES` sessions of one trace each; the judge passes two of three."""
    with RunningCollector(folder, **sections) as running:
        for number in range(1, TRACES + 1):
            running.send(traces(turn(number, f"Question {number}?", said, session=f"s{number}")))
        for number in range(1, TRACES + 1):
            running.scored(hex_id(number))
            judge(running, number, 0.9 if number % 3 else 0.1)
        yield running
