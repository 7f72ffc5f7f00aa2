"""What passes between the parts of judging."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from agenteval_collector.model.judging import Exchange
from otel_agenteval.model import Json

Reply: TypeAlias = Mapping[str, Json]
"""A judge's reply, decoded and checked."""


class Malformed(ValueError):
    """A reply is no answer to its question; the message says what is wrong with it, for the judge to correct."""


class OverBudget(Exception):
    """The budget does not hold another request; the message says which bound, and when it is free again."""


class NoAnswer(Exception):
    """The question stays without an answer for good: refused, or malformed to the last attempt."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing that is asked in one request.

    `instructions` are ours, `data` comes from telemetry and is hostile. `schema` describes the reply; `check` raises
    Malformed for what a schema cannot say. `version` rises with every change of instructions, schema or the way the
    data is rendered. `scores` gives the (score, threshold) pairs that a reply holds, one for each evaluator that the
    question serves, by which votes are compared; None for a question that finds facts, which is asked once.
    """

    name: str
    version: str
    instructions: str
    data: Mapping[str, Json]
    schema: Mapping[str, Json]
    check: Callable[[Reply], None]
    scores: Callable[[Reply], tuple[tuple[float, float], ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The valid replies to a question, at least one; `model` and `temperature` as the endpoint took them."""

    replies: tuple[Reply, ...]
    model: str
    temperature: float | None


class Ask(Protocol):
    """Puts a question to a judge.

    Raises NoAnswer, OverBudget, and JudgeUnavailable where it may be answered later.
    """

    async def __call__(self, question: Question, *, model: str) -> Answer: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """What was used up. Parts are negative in a correction."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0


class LedgerStore(Protocol):
    """Where spending is kept, by hour and model. An `hour` is counted from the Unix epoch, UTC."""

    def spend(self, hour: int, model: str, spend: Spend) -> None:
        """Add to what was spent in that hour on that model, in one commit. It holds when the call returns, also
        where the process is killed right after."""
        ...

    def spent_since(self, hour: int) -> Spend:
        """What was spent from the beginning of that hour to now, over all models."""
        ...


class JudgeTelemetry(Protocol):
    """What the judge's engine reports of its own work. Thread-safe."""

    def asked(self, exchange: Exchange, error_type: str | None) -> None:
        """A question, or its repetition, came to its end: with a valid reply, or with an error."""
        ...

    def requested(self, model: str, error_type: str | None) -> None:
        """One HTTP request to the judge came to its end, retries included; None where it was answered."""
        ...

    def no_room(self) -> None:
        """A trace found no place among those that wait for the judge, or lost it to an urgent one."""
        ...
