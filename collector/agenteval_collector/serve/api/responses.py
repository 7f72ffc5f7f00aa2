"""HTTP answers in the shape that every app of the collector gives, and answers to errors."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from agenteval_collector.runtime import errors
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.serve.api.wire import encode

Headers: TypeAlias = Mapping[str, str]
JSON: Final = "application/json"

SECURITY_HEADERS: Mapping[str, str] = {
    # A page without a script of ours runs none; small drawings are SVG attributes, so styles come from our files only.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Conversations do not belong in a browser's disk cache.
    "Cache-Control": "no-store",
}


class HeldResponse(Response):
    """An answer whose bytes count in `memory` until it is sent. Raises Overloaded, and is not sent, if there is no
    room for them."""

    def __init__(self, memory: MemoryGuard, body: str | bytes, media_type: str, headers: Headers | None = None) -> None:
        super().__init__(body, headers=headers, media_type=media_type)
        self._memory = memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._memory.room(len(self.body)):
            await super().__call__(scope, receive, send)


def json_response(body: bytes, status: int = 200, headers: Headers | None = None) -> Response:
    """Return the answer with a JSON document that is already encoded."""
    return Response(body, status, headers, media_type=JSON)


def error_response(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as JSON: `{error: {code, message}}`."""
    return json_response(encode({"error": {"code": code, "message": message}}), status, headers)


# The first class that fits decides, so subclasses stand before their base classes.
_ERRORS: Sequence[tuple[type[errors.CollectorError], int, str]] = (
    (errors.Forbidden, 403, "forbidden"),
    (errors.NotFound, 404, "not_found"),
    (errors.RequestTooLarge, 413, "too_large"),
    (errors.UnsupportedMedia, 415, "unsupported_media_type"),
    (errors.InvalidRequest, 400, "invalid_argument"),
    (errors.Overloaded, 429, "overloaded"),
    (errors.RetryableError, 503, "unavailable"),
    (errors.CollectorError, 500, "internal"),
)


class Refusals:
    """Starlette's exception handlers. They answer with a JSON error, or, if a browser asks for HTML, with the page
    that `page(status, message)` renders."""

    def __init__(self, page: Callable[[int, str], str]) -> None:
        self._page = page

    async def collector_error(self, request: Request, error: Exception) -> Response:
        """Answer an error of the collector."""
        status, code = next((status, code) for kind, status, code in _ERRORS if isinstance(error, kind))
        headers = (
            {"Retry-After": str(math.ceil(error.retry_after))} if isinstance(error, errors.RetryableError) else None
        )
        return self._answer(request, status, code, str(error), headers)

    async def http_error(self, request: Request, error: Exception) -> Response:
        """Answer an error of the router."""
        assert isinstance(error, HTTPException)
        code, message = {
            404: ("not_found", f"there is nothing at {request.url.path}"),
            405: ("method_not_allowed", f"this address takes {(error.headers or {}).get('Allow', 'GET')}"),
        }.get(error.status_code, ("refused", error.detail))
        return self._answer(request, error.status_code, code, message, error.headers)

    async def internal_error(self, request: Request, error: Exception) -> Response:
        """Answer an unexpected error, which is a bug."""
        message = "the collector failed on this request; its log has the reason"
        return self._answer(request, 500, "internal", message, None)

    def _answer(
        self, request: Request, status: int, code: str, message: str, headers: Mapping[str, str] | None
    ) -> Response:
        is_api = request.url.path.startswith("/api/")
        if not is_api and "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(self._page(status, message), status, headers)
        return error_response(status, code, message, headers)
