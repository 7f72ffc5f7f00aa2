"""From the replies to a question to scores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, cast

from agenteval_collector.judge.checks import unit
from agenteval_collector.judge.port import Question, Reply
from agenteval_collector.judge.schemas import REASON, SCORE, record
from otel_agenteval.model import Json
from otel_agenteval.outcome import Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the replies to a question say of one evaluator: `value` the score of each, `conclude` that of all."""

    evaluator: str
    threshold: float
    value: Callable[[Reply], float]
    conclude: Callable[[Sequence[Reply]], Score]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringQuestion:
    """A question whose replies hold a score for each of its readings."""

    question: Question
    readings: tuple[Reading, ...]


def scoring_question(
    *,
    name: str,
    version: str,
    instructions: str,
    data: Mapping[str, Json],
    schema: Mapping[str, Json],
    check: Callable[[Reply], None],
    readings: Sequence[Reading],
) -> ScoringQuestion:
    """A question with the scores that its replies hold; votes are compared by them."""
    question = Question(
        name=name,
        version=version,
        instructions=instructions,
        data=data,
        schema=schema,
        check=check,
        scores=lambda reply: tuple((each.value(reply), each.threshold) for each in readings),
    )
    return ScoringQuestion(question=question, readings=tuple(readings))


def one_score(
    *,
    evaluator: str,
    threshold: float,
    name: str,
    version: str,
    instructions: str,
    data: Mapping[str, Json],
    key: str,
    metadata: Mapping[str, Json] | None = None,
) -> ScoringQuestion:
    """A question whose replies hold one score in [0, 1], under `key`, behind its reason."""

    def value(reply: Reply) -> float:
        return number_of(reply, key)

    def check(reply: Reply) -> None:
        unit(reply[key], f"reply.{key}")

    conclude = ByMedian(value=value, reason=reason_of, metadata=metadata or {})
    return scoring_question(
        name=name,
        version=version,
        instructions=instructions,
        data=data,
        schema=record(**{"reason": REASON, key: SCORE}),
        check=check,
        readings=[Reading(evaluator=evaluator, threshold=threshold, value=value, conclude=conclude)],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ByMedian:
    """The median of the votes, with the reason of the one nearest to it (the first of several)."""

    value: Callable[[Reply], float]
    reason: Callable[[Reply], str]
    metadata: Mapping[str, Json] = field(default_factory=dict)

    def __call__(self, replies: Sequence[Reply]) -> Score:
        middle = median(map(self.value, replies))
        nearest = min(replies, key=lambda reply: abs(self.value(reply) - middle))
        return Score(value=middle, reason=self.reason(nearest) or "the judge gave no reason", metadata=self.metadata)


def number_of(reply: Mapping[str, Json], key: str) -> float:
    """A number of a checked reply."""
    return float(cast("float", reply[key])) + 0.0


def reason_of(reply: Mapping[str, Json]) -> str:
    """The reason in a checked reply; it may be empty."""
    return cast("str", reply["reason"])


def part_of(reply: Reply, key: str) -> Any:
    """An object or a list in a checked reply."""
    return reply[key]
