"""The ports of judging, and the things that pass between its parts."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

from agenteval_collector.model.drift import Canary, CanaryAnswer
from agenteval_collector.model.judge_jobs import JudgeExchange, JudgeJob, Judgement, Spend, StoredAnswer
from otel_agenteval.model import Json
from otel_agenteval.outcome import Evaluation, Score

OPENAI: Final = "https://api.openai.com/v1"
"""The endpoint where the settings name none."""

Reply: TypeAlias = Mapping[str, Any]
"""A judge's reply, decoded and checked: it is as the question's schema says."""

TakeJudgement: TypeAlias = Callable[[Judgement], None]
"""Takes what the judge says; the evaluation. Must not block; called from any thread."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request."""

    role: Literal["system", "user"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """One request; its first message is the system's. The reply has to follow `schema`, which is called `name`."""

    name: str
    model: str
    messages: Sequence[Message]
    schema: Mapping[str, Json]
    temperature: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """The reply as it came, unread. Tokens are None where the endpoint does not say, `temperature` where it takes none.

    `seconds` is how long it took, retries included.
    """

    text: str
    model: str
    temperature: float | None
    input_tokens: int | None
    output_tokens: int | None
    seconds: float


class JudgeError(Exception):
    """There is no reply. `error_type` has low cardinality; the message says what was wrong and what to do."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type


class JudgeUnavailable(JudgeError):
    """Not now: the endpoint is down or slow, or wants to be left alone for `retry_after` seconds.

    The same request may be answered later. `lasting`: only somebody's hand can repair it, like a wrong key.
    """

    def __init__(
        self, error_type: str, message: str, *, retry_after: float | None = None, lasting: bool = False
    ) -> None:
        super().__init__(error_type, message)
        self.retry_after = retry_after
        self.lasting = lasting


class NoAnswer(JudgeError):
    """Not at all: the endpoint or the model refuses, or no reply is valid to the last attempt."""


Settle: TypeAlias = Callable[[Spend | None], None]
"""Puts what a request has used up in the place of its estimate, once; None: the estimate stands."""

Reserve: TypeAlias = Callable[[JudgeRequest], Awaitable[Settle]]
"""Accounts for one HTTP request that is about to leave, by an estimate. Raises OverBudget where it may not leave."""


class Judge(Protocol):
    """Answers requests; safe to be asked many at once on one event loop."""

    async def ask(self, request: JudgeRequest, reserve: Reserve) -> JudgeReply:
        """Ask. `reserve` is called before every HTTP request, retries included.

        Raises JudgeUnavailable, NoAnswer, and what `reserve` raises.
        """

    async def close(self) -> None:
        """Close the connections; safe to call twice."""


class Malformed(ValueError):
    """A reply is no answer to its question; the message says what is wrong with it, for the judge to correct."""


class OverBudget(Exception):
    """The budget does not hold another request; the message says which bound, and when it is free again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One evaluator's reading of the replies to a question: `value` of each, `conclude` of all."""

    evaluator: str
    threshold: float
    value: Callable[[Reply], float]
    conclude: Callable[[Sequence[Reply]], Score]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing that is asked in one request.

    `instructions` are ours, `data` comes from telemetry and is hostile. `schema` describes the reply; `check` raises
    Malformed for what a schema cannot say. `version` rises with every change of instructions, schema or the way the
    data is rendered. `readings` give the scores that a reply holds, by which votes are compared: one for each evaluator
    that the question serves, none for a question that finds facts.
    """

    name: str
    version: str
    instructions: str
    data: Mapping[str, Json]
    schema: Mapping[str, Any]
    check: Callable[[Reply], None] | None = None
    readings: Sequence[Reading] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A valid reply to a question; `model` and `temperature` as the endpoint took them."""

    reply: Reply
    model: str
    temperature: float | None


class Ask(Protocol):
    """Puts questions about one trace to a judge."""

    @property
    def requests(self) -> int:
        """The requests that were made so far, those for malformed replies included; an answer that was known before
        counts as one."""

    def room(self, questions: int) -> AbstractAsyncContextManager[object]:
        """Keep room in the budget for so many questions, which are to be asked inside. Raises OverBudget."""

    async def __call__(self, question: Question, *, model: str, vote: int) -> Answer:
        """Ask, independently of other votes. Raises NoAnswer, OverBudget, and JudgeUnavailable where it may be
        answered later."""


class LedgerStore(Protocol):
    """The store of spending, by hour and model. An `hour` is counted from the Unix epoch, UTC."""

    def spend(self, hour: int, model: str, spend: Spend) -> None:
        """Add to what was spent. It holds when the call returns, also where the process is killed right after."""

    def spend_if(self, hour: int, model: str, spend: Spend, fits: Callable[[Callable[[int], Spend]], bool]) -> bool:
        """Add to what was spent where `fits` says so, by what was spent since an hour; return that. What it raises is
        raised, and nothing is added. Nobody spends in between, in this process or another one."""
        ...

    def spent_since(self, hour: int) -> Spend:
        """Sum up what was spent from the beginning of that hour to now, over all models."""


class AnswerStore(Protocol):
    """The store of answers, by keys of their questions. Raises Unavailable."""

    def answer(self, key: str) -> StoredAnswer | None:
        """Return the answer to a question; None where it is not known."""
        ...

    def keep(self, key: str, answer: StoredAnswer, job: JudgeJob) -> None:
        """Keep an answer to a question about this job's trace or session."""


class CanaryStore(Protocol):
    """The store of canaries and of what the judge said of them. A canary has answers; each is kept by trace, evaluator,
    version and model. Raises Unavailable."""

    def canaries(self) -> list[Canary]:
        """Return all canaries, by trace id."""

    def add_canary(self, canary: Canary, frozen: bytes, answers: Iterable[CanaryAnswer]) -> None:
        """Keep a canary with its frozen trace, and the answers that it has."""

    def frozen(self, trace_id: str) -> bytes | None:
        """Return the frozen trace of a canary; None where it is none any more."""

    def drop_canary(self, trace_id: str) -> None:
        """Forget a canary with its frozen trace; its answers stay."""

    def answers(self) -> list[CanaryAnswer]:
        """Return all answers, those on traces that were canaries included."""

    def keep_answers(self, answers: Iterable[CanaryAnswer]) -> None:
        """Keep these as the newest; the first ones stay."""

    def forget_answers(self, *, before: int) -> None:
        """Forget the answers of which the newest is older than that time (ns)."""

    def candidates(self, *, labelled: bool, limit: int) -> list[list[Evaluation]]:
        """Return scores by the judge of traces that were never canaries, by trace, of the newest traces: of those that
        people have labelled, or of any that were not judged because of what was found in them."""


class JudgeTelemetry(Protocol):
    """The counters of judging. Thread-safe."""

    def asked(self, exchange: JudgeExchange, error_type: str | None) -> None:
        """Count a request about a question that came to its end: with a valid reply, or with an error."""

    def requested(self, model: str, error_type: str | None) -> None:
        """Count an HTTP request that came to its end, retries included; None where it was answered."""

    def looked_up(self, known: bool) -> None:
        """Count a question by whether its answer was known already."""

    def no_room(self) -> None:
        """Count a trace that found no place among those that wait."""
