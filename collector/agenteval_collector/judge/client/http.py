"""The HTTP client beneath the openai client. It bounds an answer, and sends no more than a judge needs."""

from typing import Any, Final

import openai

from agenteval_collector.judge.ports import JudgeUnavailable

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
"""The longest body that is read. A judge's reply has a few kilobytes."""


class JudgeHttpClient(openai.DefaultAsyncHttpxClient):
    """Sends one request, and reads its response to the end.

    It follows no redirect, as a trace goes to the endpoint that was named and to no other. It has no timeout of its
    own: httpx's are for single reads, which an endpoint that sends a byte now and then never reaches.
    """

    def __init__(self, *, host: str, api_key: str) -> None:
        super().__init__(timeout=None, follow_redirects=False)
        self._host = host
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
        """Send the request and return its whole response. Raises JudgeUnavailable, and the errors of httpx."""
        sent = self.build_request(
            request.method,
            request.url,
            headers=self._sent_headers,
            content=request.content,
            extensions=request.extensions,
        )
        response = await super().send(sent, stream=True, **{**options, "follow_redirects": False})
        try:
            body = await self._body(response)
        finally:
            await response.aclose()
        # The body was read without unpacking. The header is dropped, so that nothing unpacks the body now.
        headers = [(name, value) for name, value in response.headers.items() if name != "content-encoding"]
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
