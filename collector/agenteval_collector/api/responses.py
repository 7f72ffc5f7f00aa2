"""HTTP answers that every app of the collector gives in the same shape."""

from collections.abc import Mapping

from starlette.responses import Response

from agenteval_collector.api.wire import encode

SECURITY_HEADERS: Mapping[str, str] = {
    # A page without a script of ours runs none; small drawings are SVG attributes, so styles come from our files only.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Conversations do not belong into a browser's disk cache.
    "Cache-Control": "no-store",
}


def json_response(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON document that is encoded already."""
    return Response(body, status, headers, media_type="application/json")


def error_response(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error in the contract's shape: `{error: {code, message}}`."""
    return json_response(encode({"error": {"code": code, "message": message}}), status, headers)
