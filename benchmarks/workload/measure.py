"""Measures of a set of conversations: the numbers that the generator is made of.

python -m benchmarks.workload.measure FILE       # a tau-bench result file
python -m benchmarks.workload.measure --generated 100
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from pprint import pprint
from typing import TypeVar

from agenteval_collector.evaluation.embedding import EmbeddedEmbedder
from agenteval_collector.evaluation.evaluators.ports import Embed, comparable

from benchmarks.workload import taubench
from benchmarks.workload.conversation import Conversation
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import spans
from otel_agenteval.metrics.loops import loop_score

QUANTILES = 20

Number = TypeVar("Number", int, float)
Value = TypeVar("Value", int, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measures of conversations. Distributions are 21 quantiles from least to greatest, or counts by value.

    Lengths are in characters.
    """

    conversations: int
    traces: int
    spans: int
    span_bytes: float
    """Mean serialized size of a span, with the marker and identity of our processor."""
    turns: Sequence[int]
    question_length: Sequence[int]
    answer_length: Sequence[int]
    arguments_length: Sequence[int]
    result_length: Sequence[int]
    calls_per_turn: Mapping[int, int]
    """Number of turns with an answer, by the number of their calls."""
    tool_names: Mapping[str, int]
    successes_of_four: Mapping[int, int]
    """Number of tasks by the number of their four runs that succeeded."""
    unanswered: float
    """Share of turns without an answer."""
    ended_by_tool: float
    """Share of conversations whose last message is a tool's."""
    remarks: float
    """Share of model calls asking for a tool that also say something."""
    failed_calls: float
    loops: float
    """Share of traces with loop_detection below 0.2."""
    repetitions: float
    """Share of traces with loop_detection below 0.5."""
    loop_detection: Sequence[float]
    """Scores of the traces that have an answer, and an earlier answer to compare it with."""


def measure(conversations: Sequence[Conversation], embed: Embed) -> Measured:
    """Measure conversations with four runs of each task. Raises ZeroDivisionError if no tool is called at all."""
    turns = [turn for conversation in conversations for turn in conversation.turns]
    calls = [call for turn in turns for call in turn.calls]
    asking = [step for turn in turns for step in turn.steps if step.calls]
    scores = sorted(score for conversation in conversations for score in loop_scores(conversation, embed))
    sizes = [span.ByteSize() for span in spans(conversations, started_at=0, marker=True)]
    successes: defaultdict[str, int] = defaultdict(int)
    for conversation in conversations:
        successes[conversation.task_id] += conversation.success
    return Measured(
        conversations=len(conversations),
        traces=len(turns),
        spans=len(sizes),
        span_bytes=sum(sizes) / len(sizes),
        turns=quantiles(len(conversation.turns) for conversation in conversations),
        question_length=quantiles(len(turn.question) for turn in turns),
        answer_length=quantiles(len(turn.answer) for turn in turns if turn.answer),
        arguments_length=quantiles(len(call.arguments) for call in calls),
        result_length=quantiles(len(call.result) for call in calls),
        calls_per_turn=counts(len(turn.calls) for turn in turns if turn.answer),
        tool_names=counts(call.name for call in calls),
        successes_of_four=counts(successes.values()),
        unanswered=sum(turn.answer is None for turn in turns) / len(turns),
        ended_by_tool=sum(_ends_by_tool(conversation) for conversation in conversations) / len(conversations),
        remarks=sum(step.text is not None for step in asking) / len(asking),
        failed_calls=sum(call.failed for call in calls) / len(calls),
        loops=sum(score < 0.2 for score in scores) / len(turns),
        repetitions=sum(score < 0.5 for score in scores) / len(turns),
        loop_detection=[round(score, 3) for score in quantiles(scores)],
    )


def loop_scores(conversation: Conversation, embed: Embed) -> list[float]:
    """Return loop_detection of every turn that has an answer, and an earlier answer to compare it with."""
    answers = [comparable(turn.answer, embed) for turn in conversation.turns]
    results = [loop_score(answer, answers[:index]) for index, answer in enumerate(answers)]
    return [result.score for result in results if result.evaluated and result.score is not None]


def quantiles(values: Iterable[Number]) -> list[Number]:
    """Return the least value, the greatest, and the 19 in between that cut the ordered values into equal parts."""
    ordered = sorted(values)
    return [ordered[round(index * (len(ordered) - 1) / QUANTILES)] for index in range(QUANTILES + 1)]


def counts(values: Iterable[Value]) -> dict[Value, int]:
    """Return the number of times that each value occurs, the most frequent first."""
    return dict(Counter(values).most_common())


def _ends_by_tool(conversation: Conversation) -> bool:
    steps = conversation.turns[-1].steps
    return bool(steps and steps[-1].calls)


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", type=Path, help="a tau-bench result file")
    source.add_argument("--generated", type=int, metavar="N", help="measure N generated conversations instead")
    arguments = parser.parse_args()
    conversations = taubench.read(arguments.file) if arguments.file else generate(arguments.generated)
    measured = measure(list(conversations), EmbeddedEmbedder().embed)
    pprint(
        {each.name: getattr(measured, each.name) for each in fields(measured)},
        width=120,
        compact=True,
        sort_dicts=False,
    )


if __name__ == "__main__":
    main()
