"""Who may write through the web port, and the bodies of what is written."""

import asyncio
import hmac
import secrets
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from agenteval_collector.api.security import without_port
from agenteval_collector.runtime.addresses import is_address, is_loopback
from agenteval_collector.runtime.errors import (
    Forbidden,
    InvalidRequest,
    RequestTooLarge,
    Unavailable,
    UnsupportedMedia,
)

TOKEN_HEADER: Final = "X-Agenteval-Token"
MAX_BODY_BYTES: Final = 256 * 1024
"""Enough for the longest note, each of its characters escaped."""
BODY_SECONDS: Final = 10.0
"""Time in which a body has to come."""


class Writers:
    """Tells requests of our own pages, and of callers with a key, from those that another site makes a browser send.

    A page of ours carries `token`, new with each process, which no page of another site can read. Where there are keys
    (`keyed`), each request has shown one before it comes here. Only as `Bearer` it takes the token's place: a password
    of Basic authentication is sent by the browser, whichever site asks for that.
    """

    def __init__(self, *, keyed: bool) -> None:
        self.token = secrets.token_urlsafe(32)
        self._keyed = keyed

    def check(self, headers: Headers, token: str) -> None:
        """Raise Forbidden, unless a request with these headers and this token may write."""
        host = headers.get("host", "").lower()
        name = without_port(host)
        if not (self._keyed or is_address(name) or is_loopback(name)):
            raise Forbidden(f"without server.keys nothing is written under a name ({name[:64]!r}): use the address")
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Forbidden("this request comes from a page of another site")
        if (origin := headers.get("origin")) is not None and origin.lower().partition(":")[2] != f"//{host}":
            raise Forbidden(
                f"Origin is {origin[:64]!r}, which is not where this request goes, {host[:64]!r}: "
                "a proxy in between must leave the Host header as it is"
            )
        if self._keyed and headers.get("authorization", "").lower().startswith("bearer "):
            return
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            what = "is not the one of this process" if token else "is missing"
            raise Forbidden(f"the token {what}: open /review again, which has it, and send it as {TOKEN_HEADER}")


async def read_body(request: Request, media: str) -> bytes:
    """Return the body of a request, which must be of this media type.

    Raises UnsupportedMedia, RequestTooLarge above `MAX_BODY_BYTES`, InvalidRequest where it breaks off, and
    Unavailable where it does not come within `BODY_SECONDS`.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != media:
        raise UnsupportedMedia(f"content-type is {given[:64]!r}, not {media}")
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
