"""Check that a request may write through the web port, and read its body."""

import asyncio
import hmac
import secrets
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from typing_extensions import TypedDict

from agenteval_collector.runtime.addresses import is_address, is_loopback
from agenteval_collector.runtime.errors import Forbidden, InvalidRequest, RequestTooLarge, Unavailable, UnsupportedMedia
from agenteval_collector.serve.api.security import without_port
from agenteval_collector.serve.api.wire import TOKEN_HEADER, TOKEN_PATH

MAX_BODY_BYTES: Final = 256 * 1024
"""The most bytes of a body: enough for the longest note with every character escaped."""
BODY_SECONDS: Final = 10.0
"""Seconds within which a body has to arrive."""


class TokenDocument(TypedDict):
    """The token that a request which writes sends as `X-Agenteval-Token`. A restart of the collector makes a new
    one."""

    token: str


class WriteGuard:
    """Tells requests of our own pages and programs from those that another site makes a browser send.

    Our pages carry `token`, which is new with each process; a program gets it at `TOKEN_PATH`. Pages of other sites can
    read neither. If callers need keys (`keyed`), each request has already shown one. A key replaces the token only
    as `Bearer`: a browser sends the password of Basic authentication with any request, whichever site causes it.
    """

    def __init__(self, *, keyed: bool) -> None:
        self.token = secrets.token_urlsafe(32)
        self._keyed = keyed

    def check(self, headers: Headers, token: str, *, has_user: bool = False) -> None:
        """Raise Forbidden unless a request with these headers and this token may write.

        `has_user` is True if a proxy has named its user. Then the key is the proxy's, which sends it with any request,
        whichever site causes it. So the token is needed too.
        """
        host = headers.get("host", "").lower()
        name = without_port(host)
        if not (self._keyed or is_address(name) or is_loopback(name)):
            raise Forbidden(f"without server.keys nothing is written under a name ({name[:64]!r}): use the address")
        # Programs and older browsers send neither of these two headers: then the token or the key decides.
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Forbidden("this request comes from a page of another site")
        if (origin := headers.get("origin")) is not None and origin.lower().partition(":")[2] != f"//{host}":
            raise Forbidden(
                f"Origin is {origin[:64]!r}, which is not where this request goes, {host[:64]!r}: "
                "a proxy in between must leave the Host header as it is"
            )
        if self._keyed and not has_user and headers.get("authorization", "").lower().startswith("bearer "):
            return
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            what = "is not the one of this process" if token else "is missing"
            raise Forbidden(
                f"the token {what}: open the page again, or get one at {TOKEN_PATH} to send it as {TOKEN_HEADER}"
            )


async def read_body(request: Request, media: str) -> bytes:
    """Return the body of a request, which must have this media type.

    Raises UnsupportedMedia; RequestTooLarge above `MAX_BODY_BYTES`; InvalidRequest if the connection breaks off; and
    Unavailable if the body does not arrive within `BODY_SECONDS`.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != media:
        raise UnsupportedMedia(f"content-type is {content_type[:64]!r}, not {media}")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise RequestTooLarge(f"the body has more than {MAX_BODY_BYTES} bytes")
    except TimeoutError as error:
        raise Unavailable(f"the body did not come within {BODY_SECONDS:g} s; send it again") from error
    except ClientDisconnect as error:
        raise InvalidRequest("the body broke off") from error
    return bytes(body)


def parsed(kind: TypeAdapter[Any], body: bytes) -> Any:
    """Parse a JSON body. Raises InvalidRequest naming the field that is wrong."""
    try:
        return kind.validate_json(body)
    except ValidationError as error:
        [first, *_] = error.errors(include_input=False, include_url=False)
        location = ".".join(map(str, first["loc"])) or "the body"
        raise InvalidRequest(f"{location[:64]}: {first['msg']}") from error
