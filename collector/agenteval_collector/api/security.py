"""ASGI middleware that decides who is answered: bearer keys, the Host header, and headers for browsers.

None of the collector's apps has websockets; only HTTP requests are looked at.
"""

import base64
import binascii
import hmac
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agenteval_collector.api.responses import SECURITY_HEADERS, error_response
from agenteval_collector.runtime.addresses import is_loopback


class LoopbackHost:
    """Answers only requests whose Host header names a loopback address; for apps that are bound to one.

    A page of the internet can point its own name at 127.0.0.1 and then read us from the user's browser (DNS
    rebinding). Its name in the Host header is what gives it away.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            hosts = Headers(scope=scope).getlist("host")
            if len(hosts) != 1 or not is_loopback(without_port(hosts[0].lower())):
                message = "the Host header does not name this machine: use 127.0.0.1 or localhost"
                await error_response(421, "misdirected", message)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def without_port(host: str) -> str:
    """Return the name or the address in a Host header."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


class Keys:
    """Answers only requests that carry one of `keys`; paths in `open_paths` need none.

    The key comes as `Authorization: Bearer KEY`, or as the password of Basic authentication under any user
    name, which is how a browser can ask its user for it.
    """

    def __init__(self, app: ASGIApp, *, keys: Sequence[str], open_paths: Sequence[str] = ()) -> None:
        if not keys or not all(keys):
            raise ValueError("keys must be one or more non-empty texts; leave the middleware out to need none")
        self._app = app
        self._keys = [key.encode() for key in keys]
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._opens(scope):
            message = "this collector wants a key: send the header `Authorization: Bearer KEY`"
            challenge = {"WWW-Authenticate": 'Basic realm="agenteval", Bearer realm="agenteval"'}
            await error_response(401, "unauthenticated", message, challenge)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _opens(self, scope: Scope) -> bool:
        if scope["path"] in self._open_paths:
            return True
        given = _credential(Headers(scope=scope).get("authorization", ""))
        # Every key is compared, in constant time each, so that timing tells nothing about any of them.
        return sum(hmac.compare_digest(given, key) for key in self._keys) > 0


def _credential(authorization: str) -> bytes:
    """Return the key in an Authorization header; empty, which is no key, where there is none."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("latin-1")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""


class SecurityHeaders:
    """Adds to every answer what a browser must know to stay safe; headers that an answer has are kept."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
