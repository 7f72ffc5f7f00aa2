"""The HTTP client beneath the openai client. It does what that client does not do.

It accounts for each attempt, limits the time and the size of an answer, and sends no more than a judge needs. The
openai client decides what is sent again and when. Each of its attempts passes through here.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import openai

from agenteval_collector.judge.client.completions import refuses_format
from agenteval_collector.judge.ports import JudgeError, JudgeRequest, JudgeUnavailable, Reserve, Settle
from agenteval_collector.model.judge_jobs import Spend

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
"""The longest body that is read. A judge's reply has a few kilobytes."""


@dataclass(slots=True)
class RequestAttempts:
    """The attempts at one request. `ended` is called with the type of error of each attempt, or with None.

    `settle` settles the attempt that was answered, by the usage in its reply.
    """

    request: JudgeRequest
    reserve: Reserve
    ended: Callable[[str | None], None]
    settle: Settle | None = None


current_attempts: ContextVar[RequestAttempts | None] = ContextVar("current_attempts", default=None)
"""The attempts of the current task, which sets it, as the openai client offers no other way to hand them through.

With None, nothing is accounted for.
"""


class JudgeHttpClient(openai.DefaultAsyncHttpxClient):
    """Sends each attempt. `timeout` is in seconds and holds for a whole attempt.

    The client follows no redirect, as a trace goes to the endpoint that was named and to no other.
    """

    def __init__(self, *, host: str, api_key: str, timeout: float) -> None:
        super().__init__(timeout=None, follow_redirects=False)
        self._host = host
        self._limit = timeout
        # Only these headers are sent. The openai client would add facts about this machine, and what it finds in the
        # environment (organization, project, OPENAI_CUSTOM_HEADERS), which is for the application's own calls.
        self._sent_headers = {
            "authorization": f"Bearer {api_key}",
            "content-type": "application/json",
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": "otel-agenteval",
        }

    async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """Send one attempt and read its response to the end.

        Raises the errors of `RequestAttempts.reserve`, JudgeUnavailable, and the errors of httpx.
        """
        attempts = current_attempts.get()
        if attempts is None:
            return await self._exchange(request, options)
        settle = await attempts.reserve(attempts.request)
        # Nothing is used up until the request leaves. From then on it may be billed, so the estimate stands.
        used: Spend | None = Spend()

        async def note(step: str, _: object) -> None:
            nonlocal used
            if step.endswith("send_request_headers.started"):
                used = None

        response: Any = None
        try:
            response = await self._exchange(request, options, trace=note)
        except Exception as error:
            attempts.ended(error.error_type if isinstance(error, JudgeError) else "connection_error")
            raise
        finally:
            # A cancelled attempt is settled too.
            if response is None:
                settle(used)
        if response.is_success:
            attempts.settle = settle
        else:
            settle(Spend(requests=1))
            attempts.ended(str(response.status_code))
        return response

    async def _exchange(self, request: Any, options: dict[str, Any], **extensions: Any) -> Any:
        sent = self.build_request(
            request.method,
            request.url,
            headers=self._sent_headers,
            content=request.content,
            extensions={**request.extensions, **extensions},
        )
        try:
            async with asyncio.timeout(self._limit):
                response = await super().send(sent, stream=True, **{**options, "follow_redirects": False})
                try:
                    body = await self._body(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            # A timeout is not tried again, as the next attempt would take as long.
            raise JudgeUnavailable("timeout", f"{self._host}: no answer within {self._limit:g} s") from None
        # The body was read without unpacking. The header is dropped, so that nothing unpacks the body now.
        headers = [(name, value) for name, value in response.headers.items() if name != "content-encoding"]
        if refuses_format(response.status_code, body.decode(errors="replace")):
            # Otherwise the openai client sends the same form again after a status that may pass.
            headers.append(("x-should-retry", "false"))
        return type(response)(response.status_code, headers=headers, content=body, request=request)

    async def _body(self, response: Any) -> bytes:
        body = bytearray()
        # The bytes are read raw. So a body that is compressed all the same cannot swell; it fails later as no JSON.
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                message = f"{self._host}: the answer has more than {MAX_BODY_BYTES} bytes; check judge.base_url"
                raise JudgeUnavailable("answer_too_large", message)
        return bytes(body)
