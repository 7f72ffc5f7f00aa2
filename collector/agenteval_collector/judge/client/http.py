"""The HTTP client beneath the openai client: sends what a judge needs and no more, reads no more than it can hold."""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import openai

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Longer replies are not read: a judge's reply has a few kilobytes."""


class BodyTooLarge(openai.OpenAIError):
    """A response is longer than MAX_BODY_BYTES."""


@dataclass(slots=True)
class Departure:
    """Whether anything of a request has left this machine, and whether it came back with an error status."""

    left: bool = False
    rejected: bool = False

    async def trace(self, event: str, info: dict[str, Any]) -> None:
        """Told by the HTTP client of every step of a request."""
        if event.endswith("send_request_headers.started"):
            self.left = True


departure: ContextVar[Departure] = ContextVar("departure")
"""Of the request that the present task sends: there is no other way to it through the openai client."""


class JudgeHttpClient(openai.DefaultAsyncHttpxClient):
    """Follows no redirect, for a trace goes to the endpoint that was named and to no other."""

    def __init__(self, *, api_key: str, timeout: float) -> None:
        super().__init__(timeout=timeout, follow_redirects=False)
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
        """The response, read to its end whether `stream` is asked for or not. Raises BodyTooLarge."""
        sent = self.build_request(
            request.method,
            request.url,
            headers=self._sent_headers,
            content=request.content,
            extensions={**request.extensions, "trace": departure.get().trace},
        )
        response = await super().send(sent, stream=True, **{**options, "follow_redirects": False})
        departure.get().rejected = response.status_code >= 400
        try:
            body = bytearray()
            # Raw: what comes compressed all the same is no JSON, and cannot swell.
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise BodyTooLarge
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.items() if name != "content-encoding"]
        return type(response)(response.status_code, headers=headers, content=bytes(body), request=request)
