"""From the replies to a question to scores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, cast

from agenteval_collector.judge.ports import Question, Reading, Reply
from agenteval_collector.judge.prompt.schemas import REASON, SCORE, record
from otel_agenteval.model import Json
from otel_agenteval.outcome import Score


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
) -> Question:
    """Make a question whose replies hold one score in [0, 1], under `key`, behind its reason."""

    def value(reply: Reply) -> float:
        return cast("float", reply[key])

    conclude = ByMedian(value=value, reason=reason_of, metadata=metadata or {})
    return Question(
        name=name,
        version=version,
        instructions=instructions,
        data=data,
        schema=record(**{"reason": REASON, key: SCORE}),
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


def reason_of(reply: Mapping[str, Any]) -> str:
    """Read the reason in a reply or a part of one; it may be empty."""
    return cast("str", reply["reason"])
