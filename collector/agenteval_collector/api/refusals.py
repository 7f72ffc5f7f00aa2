"""Answers to errors: JSON in the contract's shape, or a page for a browser that asked for one."""

import math
from collections.abc import Callable, Mapping, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from agenteval_collector.api.responses import error_response
from agenteval_collector.runtime.errors import (
    CollectorError,
    Forbidden,
    InvalidRequest,
    NotFound,
    Overloaded,
    RequestTooLarge,
    RetryableError,
    UnsupportedMedia,
)

_ERRORS: Sequence[tuple[type[CollectorError], int, str]] = (
    (Forbidden, 403, "forbidden"),
    (NotFound, 404, "not_found"),
    (RequestTooLarge, 413, "too_large"),
    (UnsupportedMedia, 415, "unsupported_media_type"),
    (InvalidRequest, 400, "invalid_argument"),
    (Overloaded, 429, "overloaded"),
    (RetryableError, 503, "unavailable"),
    (CollectorError, 500, "internal"),
)


class Refusals:
    """Starlette's exception handlers; `page(status, message)` renders the error page."""

    def __init__(self, page: Callable[[int, str], str]) -> None:
        self._page = page

    async def collector_error(self, request: Request, error: Exception) -> Response:
        """Answer an error that the collector itself has raised."""
        status, code = next((status, code) for kind, status, code in _ERRORS if isinstance(error, kind))
        headers = {"Retry-After": str(math.ceil(error.retry_after))} if isinstance(error, RetryableError) else None
        return self._answer(request, status, code, str(error), headers)

    async def http_error(self, request: Request, error: Exception) -> Response:
        """Answer an error that the router has raised."""
        assert isinstance(error, HTTPException)
        code, message = {
            404: ("not_found", f"there is nothing at {request.url.path}"),
            405: ("method_not_allowed", f"this address takes {(error.headers or {}).get('Allow', 'GET')}"),
        }.get(error.status_code, ("refused", error.detail))
        return self._answer(request, error.status_code, code, message, error.headers)

    async def internal_error(self, request: Request, error: Exception) -> Response:
        """Answer a defect of ours."""
        message = "the collector failed on this request; its log has the reason"
        return self._answer(request, 500, "internal", message, None)

    def _answer(
        self, request: Request, status: int, code: str, message: str, headers: Mapping[str, str] | None
    ) -> Response:
        is_api = request.url.path.startswith("/api/")
        if not is_api and "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(self._page(status, message), status, headers)
        return error_response(status, code, message, headers)
