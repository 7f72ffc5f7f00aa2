"""The port of a judge: it answers one request, over whatever wire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from otel_agenteval.model import Json

OPENAI: Final = "https://api.openai.com/v1"
"""The endpoint where the settings name none."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request."""

    role: Literal["system", "user"]
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
    """The reply as it came, unread.

    `model` is the one that the endpoint says has answered; tokens are None where it does not say. `temperature` is
    None where the endpoint takes none for this model. `seconds` is how long it took, retries included.
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
    """Not now: the endpoint is down, slow, or asks to be left alone. The same request may be answered later.

    `retry_after` is how many seconds the endpoint wants to be left alone, None where it does not say. `lasting`: only
    somebody's hand can repair it, like a wrong key.
    """

    def __init__(
        self, error_type: str, message: str, *, retry_after: float | None = None, lasting: bool = False
    ) -> None:
        super().__init__(error_type, message)
        self.retry_after = retry_after
        self.lasting = lasting


class JudgeRefused(JudgeError):
    """Not at all: unknown model, a request that the endpoint does not take, an answer that the model declines."""


class Reservation(Protocol):
    """An HTTP request that is accounted for by an estimate."""

    def settle(self, requests: int = 1, input_tokens: int | None = None, output_tokens: int | None = None) -> None:
        """Put what was used up in the place of the estimate, once; None: the estimate stands."""
        ...


class Spending(Protocol):
    """The budget of a trace: asked before every single HTTP request, retries included."""

    async def reserve(self, request: JudgeRequest) -> Reservation:
        """Account for a request that is about to leave, once there is room beside those under way.

        Raises OverBudget where it may not leave.
        """
        ...


class Judge(Protocol):
    """Answers requests; safe to be asked many at once on one event loop."""

    async def ask(self, request: JudgeRequest, spending: Spending) -> JudgeReply:
        """Ask. Raises JudgeUnavailable, JudgeRefused, and what `Spending.reserve` raises."""
        ...

    async def close(self) -> None:
        """Close the connections; safe to call twice."""
        ...
