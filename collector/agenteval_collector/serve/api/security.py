"""ASGI middleware that decides who gets an answer: keys, the Host header, and security headers for browsers.

Only HTTP requests are checked: none of the collector's apps has websockets.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as ASGIScope

from agenteval_collector.ingest.shares import SHARER, Shares, sharer_of
from agenteval_collector.model.callers import Caller, Scope
from agenteval_collector.runtime.addresses import is_address, is_loopback
from agenteval_collector.serve.api.responses import SECURITY_HEADERS, error_response
from agenteval_collector.serve.doors.audit import Audit
from agenteval_collector.serve.doors.keys import KeyRing

MAX_USER_LENGTH: Final = 200
"""Characters of a person's name that are kept."""


class LoopbackHost:
    """Answers only requests whose Host header names a loopback address; for ports that are bound to one.

    A site on the internet can point its own name at 127.0.0.1 and then read the collector from the user's browser (DNS
    rebinding). Its name in the Host header gives it away.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            hosts = Headers(scope=scope).getlist("host")
            # Of two Host headers, a proxy before us may believe the other one.
            if len(hosts) != 1 or not is_loopback(without_port(hosts[0].lower())):
                message = "the Host header does not name this machine: use 127.0.0.1 or localhost"
                await error_response(421, "misdirected", message)(scope, receive, send)
                return
        await self._app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class UserHeader:
    """The header in which an identity proxy names the person who is logged in, and the networks of that proxy.

    The name is kept in `request.state.user` (`user_of`). From other networks the header is not believed.
    """

    app: ASGIApp
    name: str
    proxies: Sequence[IPv4Network | IPv6Network]

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (user := self._user(scope)):
            scope.setdefault("state", {})["user"] = user
        await self.app(scope, receive, send)

    def _user(self, scope: ASGIScope) -> str | None:
        names = Headers(scope=scope).getlist(self.name)
        # Of two headers, one may be the caller's own.
        if len(names) != 1 or not self._is_proxy((scope.get("client") or ("", 0))[0]):
            return None
        name = names[0].strip().encode("latin-1", "replace").decode("utf-8", "replace")
        return "".join(character for character in name if character.isprintable())[:MAX_USER_LENGTH] or None

    def _is_proxy(self, host: str) -> bool:
        return is_address(host) and any(ip_address(host) in network for network in self.proxies)


def user_of(request: Request) -> str | None:
    """Return the person whom an identity proxy names; None if there is none, or no such proxy."""
    user: str | None = getattr(request.state, "user", None)
    return user


def without_port(host: str) -> str:
    """Return the name or the address in a Host header."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def scope_of(method: str) -> Scope:
    """Return what a request of this method takes, if its address does not ask for more."""
    return Scope.READ if method in ("GET", "HEAD", "OPTIONS") else Scope.LABEL


def scope_of_telemetry(_method: str) -> Scope:
    """Return what a request with telemetry takes, whatever its method."""
    return Scope.WRITE


@dataclass(frozen=True, slots=True)
class AccessControl:
    """Answers only callers that the ring knows and that have the scope. Stores the caller in `request.state.caller`.

    The key comes as `Authorization: Bearer KEY`, or as the password of Basic authentication with any user name: that is
    how a browser can ask its user for it. Without a key, the client certificate decides. `needs` maps a request's
    method to a scope. Paths in `open_paths` need no key and have no caller. Callers share the `slots` for requests
    under way.
    """

    app: ASGIApp
    ring: KeyRing
    audit: Audit
    slots: Shares
    needs: Callable[[str], Scope] = scope_of
    open_paths: Sequence[str] = ()

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self.open_paths:
            await self.app(scope, receive, send)
            return
        needed, action = self.needs(scope["method"]), f"{scope['method']} {scope['path']}"
        host, port = scope.get("client") or ("unknown", 0)
        peer = f"{host}:{port}"
        caller = self._caller(scope)
        if caller is None:
            message = "this collector wants a key: send the header `Authorization: Bearer KEY`"
            challenge = {"WWW-Authenticate": 'Basic realm="agenteval", Bearer realm="agenteval"'}
            self.audit.refused(None, action, peer, message)
            await error_response(401, "unauthenticated", message, challenge)(scope, receive, send)
        elif not caller.may(needed):
            message = f"the key {caller.name!r} does not have the scope {needed}"
            self.audit.refused(caller, action, peer, message)
            await error_response(403, "forbidden", message)(scope, receive, send)
        elif not self.slots.take(who := sharer_of(caller, host)):
            message = "as many of your requests are under way as may be; try again in a second"
            self.audit.refused(caller, action, peer, message)
            await error_response(429, "overloaded", message, {"Retry-After": "1"})(scope, receive, send)
        else:
            SHARER.set(who)
            scope.setdefault("state", {})["caller"] = caller
            status: int | None = None

            async def note_status(message: Message) -> None:
                nonlocal status
                status = message.get("status", status)
                await send(message)

            try:
                await self.app(scope, receive, note_status)
            finally:
                self.slots.give_back(who)
                user = scope["state"].get("user")
                self.audit.allowed(caller, (needed,), action, peer, status=status, user=user)

    def _caller(self, scope: ASGIScope) -> Caller | None:
        key = _credential(Headers(scope=scope).get("authorization", ""))
        certificate: str | None = scope.get("state", {}).get("certificate")
        if certificate is not None and not key:
            return self.ring.by_certificate(certificate)
        return self.ring.by_key(key)


def _credential(authorization: str) -> bytes:
    """Return the key in an Authorization header; empty if there is none. No caller has an empty key."""
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
    """Adds the security headers to every answer that does not set them itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
