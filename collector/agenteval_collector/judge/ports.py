"""The ports of judging, and the values that pass between its parts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from agenteval_collector.model.judge_jobs import JudgeExchange, JudgeJob, Judgement, Spend
from otel_agenteval.model import Json
from otel_agenteval.outcome import Score

OPENAI: Final = "https://api.openai.com/v1"
"""The endpoint that is used if the settings name none."""

Reply: TypeAlias = Mapping[str, Any]
"""A judge's reply, decoded and checked against the question's schema."""


class JudgementTaker(Protocol):
    """Takes judgements: the inbox of the evaluation, and in front of it the canaries."""

    def take_judgement(self, judgement: Judgement) -> None:
        """Take a judgement. Must not block; called from any thread."""


class Rechecks(Protocol):
    """Knows the traces that the judge is asked about again."""

    def due(self) -> Sequence[JudgeJob]:
        """Return the jobs that are due now. Called on the judge's thread, at every wake."""
        ...


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request."""

    role: Literal["system", "user"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """One request. Its first message is the system's. The reply must follow `schema`, whose name is `name`."""

    name: str
    model: str
    messages: Sequence[Message]
    schema: Mapping[str, Json]
    temperature: float


Usage: TypeAlias = Literal["reported", "missing", "implausible"]
"""Whether a reply says how many tokens it took. If it does not, or the numbers cannot be right, the estimate counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """The text of a reply as it came, not read yet.

    Token counts are None unless `usage` is `reported`: the endpoint does not report them, or reports what cannot be.
    `temperature` is None if the endpoint takes none.
    `declined` is `refusal` if the model declined to answer, and `content_filter` if the endpoint cut the answer
    out. `seconds` is the time that the reply took, including retries.
    """

    text: str = ""
    model: str
    temperature: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    usage: Usage = "missing"
    declined: str | None = None
    seconds: float = 0.0


class JudgeError(Exception):
    """There is no reply. `error_type` has low cardinality. The message says what was wrong and what to do."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type


class JudgeUnavailable(JudgeError):
    """There is no reply now. The same request may be answered later.

    The endpoint is down or slow, or asks not to be called for `retry_after` seconds. `lasting` means that only a
    person can repair the cause, such as a wrong key.
    """

    def __init__(
        self, error_type: str, message: str, *, retry_after: float | None = None, lasting: bool = False
    ) -> None:
        super().__init__(error_type, message)
        self.retry_after = retry_after
        self.lasting = lasting


class NoAnswer(JudgeError):
    """There will be no reply: the endpoint or the model refuses, or no reply was valid to the last attempt."""


Settle: TypeAlias = Callable[[Spend | None], None]
"""Replaces the estimate of a request by what it really used, once. With None, the estimate stands."""

Reserve: TypeAlias = Callable[[JudgeRequest], Awaitable[Settle]]
"""Reserves the estimate of one HTTP request that is about to leave. Raises OverBudget if it may not leave."""


class Judge(Protocol):
    """Answers requests. May be asked many at once on one event loop."""

    async def ask(self, request: JudgeRequest, reserve: Reserve) -> JudgeReply:
        """Ask the judge. `reserve` is called before every HTTP request, including retries.

        Raises JudgeUnavailable, NoAnswer, and the errors of `reserve`.
        """

    async def close(self) -> None:
        """Close the connections; safe to call twice."""


class Malformed(ValueError):
    """A reply is no answer to its question. The message tells the judge what to correct."""


class OverBudget(Exception):
    """The budget has no room for another request. The message says which bound, and when it is free again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Reads one evaluator's scores from the replies to a question.

    `value` returns the score of one reply, `conclude` the score of all replies together.
    """

    value: Callable[[Reply], float]
    conclude: Callable[[Sequence[Reply]], Score]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing that is asked in one request.

    `instructions` are written by us. `data` comes from telemetry and is hostile. `schema` describes the reply. `check`
    raises Malformed for what a schema cannot express. `version` rises with every change of the instructions, the
    schema or the way the data is rendered.

    `readings` give the scores in a reply, by which votes are compared. There is one for each evaluator that the
    question serves, by its name, and none if the question finds facts.
    """

    name: str
    version: str
    instructions: str
    data: Mapping[str, Json]
    schema: Mapping[str, Any]
    check: Callable[[Reply], None] | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)


class JudgeTelemetry(Protocol):
    """The counters of judging. Thread-safe."""

    def asked(self, exchange: JudgeExchange, error_type: str | None) -> None:
        """Count a request about a question that ended with a valid reply, or with an error."""

    def requested(self, model: str, error_type: str | None) -> None:
        """Count an HTTP request that ended, including retries. `error_type` is None if it was answered."""

    def answered(self, model: str, usage: Usage) -> None:
        """Count a reply by whether it says what it used."""

    def looked_up(self, hit: bool) -> None:
        """Count a question by whether its answer was known already."""

    def no_room(self) -> None:
        """Count a trace that found no place among those that wait."""
