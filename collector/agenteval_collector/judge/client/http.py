"""The HTTP client beneath the openai client: accounts for each request, sends no more than a judge needs to be told,
and reads no more than it can hold.

The openai client decides what is sent again and when; each attempt of its passes here.
"""

import asyncio
import json
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import openai

from agenteval_collector.judge.ports import JudgeError, JudgeRequest, JudgeUnavailable, Reservation, Spending

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
"""Longer replies are not read: a judge's reply has a few kilobytes."""


@dataclass(slots=True)
class Call:
    """One request to the judge, in one or more attempts; `ended` is told of each, with the error's type or None.

    `answered` is the attempt that was, to be settled by the usage in its reply.
    """

    request: JudgeRequest
    spending: Spending
    ended: Callable[[str | None], None]
    answered: Reservation | None = None


current_call: ContextVar[Call] = ContextVar("current_call")
"""The call that the present task makes: there is no other way to hand it through the openai client."""


class JudgeHttpClient(openai.DefaultAsyncHttpxClient):
    """Sends each attempt of the current call; `timeout` is in seconds and holds for a whole attempt.

    It follows no redirect, for a trace goes to the endpoint that was named and to no other.
    """

    def __init__(self, *, host: str, api_key: str, timeout: float) -> None:
        super().__init__(timeout=None, follow_redirects=False)
        self._host = host
        self._limit = timeout
        # These and no others: the openai client adds what it finds in the environment (organization, project,
        # OPENAI_CUSTOM_HEADERS), which is there for the application's own calls, and facts about this machine.
        self._sent_headers = {
            "authorization": f"Bearer {api_key}",
            "content-type": "application/json",
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": "otel-agenteval",
        }

    async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """Send one attempt and read its response to the end.

        Raises what `Spending.reserve` raises, JudgeUnavailable, and the errors of httpx.
        """
        call = current_call.get()
        reservation = await call.spending.reserve(call.request)
        # Nothing is used up until the request leaves. From then on it may be answered, and billed: the estimate stands.
        used = {"requests": 0, "input_tokens": 0, "output_tokens": 0}

        async def note(step: str, _: object) -> None:
            if step.endswith("send_request_headers.started"):
                used.clear()

        response: Any = None
        try:
            response = await self._exchange(request, note, options)
        except Exception as error:
            call.ended(error.error_type if isinstance(error, JudgeError) else "connection_error")
            raise
        finally:
            # Also where it was cancelled.
            if response is None:
                reservation.settle(**used)
        if response.is_success:
            call.answered = reservation
        else:
            reservation.settle(input_tokens=0, output_tokens=0)
            call.ended(str(response.status_code))
        return response

    async def _exchange(self, request: Any, note: Any, options: dict[str, Any]) -> Any:
        sent = self.build_request(
            request.method,
            request.url,
            headers=self._sent_headers,
            content=request.content,
            extensions={**request.extensions, "trace": note},
        )
        try:
            async with asyncio.timeout(self._limit):
                response = await super().send(sent, stream=True, **{**options, "follow_redirects": False})
                try:
                    body = await self._body(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            # Not sent again: the next attempt would take as long.
            raise JudgeUnavailable("timeout", f"{self._host}: no answer within {self._limit:g} s") from None
        # What was announced as compressed was read as it came, and must not be unpacked now.
        headers = [(name, value) for name, value in response.headers.items() if name != "content-encoding"]
        status = _status(response.status_code, body)
        return type(response)(status, headers=headers, content=body, request=request)

    async def _body(self, response: Any) -> bytes:
        body = bytearray()
        # Raw: what comes compressed all the same is no JSON, and cannot swell.
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                message = f"{self._host}: the answer has more than {MAX_BODY_BYTES} bytes; check judge.base_url"
                raise JudgeUnavailable("answer_too_large", message)
        return bytes(body)


def _status(status: int, body: bytes) -> int:
    """Find the true status of a response: routers hand on an upstream's error in an answer of status 200."""
    if status != 200 or b'"error"' not in body:
        return status
    try:
        document = json.loads(body)
        code = int(document["error"]["code"]) if not document.get("choices") else status
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return status
    return code if 400 <= code < 600 else status
