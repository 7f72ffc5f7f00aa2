"""What a judge is: something that answers one request, over whatever wire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from otel_agenteval.model import Json


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """One request. `schema` is a strict JSON schema that the reply has to follow, `name` what it is called."""

    name: str
    model: str
    messages: Sequence[Message]
    schema: Mapping[str, Json]
    temperature: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """The reply as it came, unread. `model` is what the endpoint says has answered; tokens are None where it does not
    say. `temperature` is None where the endpoint takes none for this model. `seconds` is how long it took."""

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
    """Not now: the endpoint is down, slow, or asks to be left alone. The same request may be answered later.

    `sent` says whether a request of this call reached out at all; it did not where the circuit is open. `lasting`:
    only somebody's hand can repair it, like a wrong key.
    """

    def __init__(self, error_type: str, message: str, *, retry_after: float, sent: bool, lasting: bool = False) -> None:
        super().__init__(error_type, message)
        self.retry_after = retry_after
        self.sent = sent
        self.lasting = lasting


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an endpoint does not answer now: what failed last, and since when there was no answer. `until`: it is left
    alone till then; None: it is being asked. Times in nanoseconds since the Unix epoch."""

    message: str
    since: int
    until: int | None


class JudgeRefused(JudgeError):
    """Not at all: unknown model, a request that the endpoint does not take, an answer that the model declines."""


class Spending(Protocol):
    """Asked before and told after every single HTTP request, retries included."""

    async def reserve(self, request: JudgeRequest) -> None:
        """Account for a request that is about to leave, once there is room beside those under way.

        Raises OverBudget where it may not leave.
        """
        ...

    def settle(self, request: JudgeRequest, reply: JudgeReply | None) -> None:
        """The request came back with this reply, or with none."""
        ...

    def reject(self, request: JudgeRequest) -> None:
        """The request came back with an error status: it was one, and took no tokens."""
        ...

    def release(self, request: JudgeRequest) -> None:
        """Nothing of the request has left."""
        ...


class Judge(Protocol):
    """Answers requests; safe to be asked many at once on one event loop."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """The reply. Raises JudgeUnavailable, JudgeRefused, and what `Spending.reserve` raises."""
        ...

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the endpoint; None since its last answer. From any thread."""
        ...

    async def close(self) -> None: ...
