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


class Reservation(Protocol):
    """An HTTP request that is accounted for by an estimate."""

    def settle(self, requests: int = 1, input_tokens: int | None = None, output_tokens: int | None = None) -> None:
        """Put what was used up in the place of the estimate, once; None: the estimate stands."""


class Spending(Protocol):
    """The budget of a trace: asked before every single HTTP request, retries included."""

    async def reserve(self, request: JudgeRequest) -> Reservation:
        """Account for a request that is about to leave, once there is room. Raises OverBudget where it may not."""


class Judge(Protocol):
    """Answers requests; safe to be asked many at once on one event loop."""

    async def ask(self, request: JudgeRequest, spending: Spending) -> JudgeReply:
        """Ask. Raises JudgeUnavailable, NoAnswer, and what `Spending.reserve` raises."""

    async def close(self) -> None:
        """Close the connections; safe to call twice."""
