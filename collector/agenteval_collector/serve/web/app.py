"""The web port (TCP port 4319): the JSON API, Prometheus metrics, health, and the pages."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agenteval_collector.ingest.shares import Shares
from agenteval_collector.model.callers import Caller
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import CollectorError
from agenteval_collector.serve.api.gate import Gate
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.serve.api.reports import Reports
from agenteval_collector.serve.api.responses import (
    SECURITY_HEADERS,
    HeldResponse,
    Refusals,
    error_response,
    json_response,
)
from agenteval_collector.serve.api.routes import api_routes, write_routes
from agenteval_collector.serve.api.security import AccessControl, LoopbackHost, SecurityHeaders, UserHeader, user_of
from agenteval_collector.serve.api.threads import BoundedThreads, WebThreads
from agenteval_collector.serve.api.wire import Parameters, encode
from agenteval_collector.serve.api.write_guard import WriteGuard, read_body
from agenteval_collector.serve.doors.audit import Audit
from agenteval_collector.serve.doors.keys import KeyRing
from agenteval_collector.serve.web import agents, alarms, problems, quality, reliability, review, sessions
from agenteval_collector.serve.web.assets import asset_routes
from agenteval_collector.serve.web.site import Site

_OWN_ORIGIN = {"Referrer-Policy": "same-origin"}
"""A header of pages with a form. With `no-referrer`, browsers send the form without an origin."""
_SCRIPTED: Final = {
    "Content-Security-Policy": SECURITY_HEADERS["Content-Security-Policy"] + "; script-src 'self'; connect-src 'self'"
}
"""A header of every page: scripts of ours may run, and ask this collector."""

PAGES: Sequence[tuple[str, Callable[[Site, Parameters], str], Mapping[str, str]]] = (
    ("/", sessions.start, {}),
    ("/sessions", sessions.sessions, {}),
    ("/sessions/{session_id:anytext}", sessions.session, {}),
    ("/traces/{trace_id}", sessions.trace, {}),
    ("/agents", agents.agents, {}),
    ("/agents/{agent:anytext}", agents.agent, {}),
    ("/alarms", alarms.alarms, {}),
    ("/problems", problems.problems, {}),
    ("/problems/{problem_id}", problems.problem, _OWN_ORIGIN),
    ("/quality", quality.quality, {}),
    ("/reliability", reliability.reliability, {}),
    ("/review", review.review, _OWN_ORIGIN),
)
"""Every page: its address, the function that makes it from the request's parameters, and its own headers."""


def make_app(
    app: ASGIApp,
    *,
    health: Callable[[], str | None],
    threads: WebThreads,
    ring: KeyRing,
    audit: Audit,
    slots: Shares,
    loopback: bool,
    user_header: str | None = None,
    user_proxies: Sequence[IPv4Network | IPv6Network] = (),
) -> Starlette:
    """Return the ASGI application of the web port. It finds out who calls, and then hands the request to `app`.

    `health` returns the reason why the collector cannot do its work now, or None if it can. If the `ring` is not
    open, all paths but /healthz and /readyz need one of its keys. `audit` records what is written and what is refused.
    Callers share the `slots` for requests under way. `loopback` is True if the port is bound to a loopback address:
    requests with any other Host are then refused. A proxy in one of `user_proxies` names its user in `user_header`, and
    leaves the Host header as the browser sent it. `threads` are closed when the application ends.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        threads.close()

    middleware = [Middleware(SecurityHeaders)]
    if user_header is not None:
        middleware.append(Middleware(UserHeader, name=user_header, proxies=user_proxies))
    elif loopback:
        middleware.append(Middleware(LoopbackHost))
    middleware.append(
        Middleware(AccessControl, ring=ring, audit=audit, slots=slots, open_paths=("/healthz", "/readyz"))
    )
    port = Starlette(routes=_health_routes(health, is_open=ring.is_open), middleware=middleware, lifespan=lifespan)
    # Not as a mount: the pattern of a mount does not match every id.
    port.router.default, port.router.redirect_slashes = app, False
    return port


def tenant_app(
    queries: Queries,
    reports: Reports,
    *,
    metrics: Callable[[Mapping[str, str], Caller], tuple[bytes, str]],
    threads: WebThreads,
    keyed: bool,
    clock: Clock,
    grpc_endpoint: str,
) -> Starlette:
    """Return the ASGI application of one tenant: the API, the pages, and the metrics.

    `metrics` takes the headers of a request and its caller; it returns a page for Prometheus and its content type.
    Writes go to `reports`. `keyed` is True if each caller has shown a key. The pages tell users to send spans to
    `grpc_endpoint`.
    """
    guard = WriteGuard(keyed=keyed)
    site = Site(queries=queries, clock=clock, grpc_endpoint=grpc_endpoint, token=guard.token)
    forms = {
        "/problems/{problem_id}": partial(problems.mark, clock),
        "/review": partial(review.keep, queries),
    }
    refusals = Refusals(site.error)
    app = Starlette(
        routes=[
            *api_routes(queries, threads),
            *write_routes(queries, reports, guard, threads.writes),
            *(_page_route(path, partial(make, site), headers, threads) for path, make, headers in PAGES),
            *(_form_route(path, keep, reports, guard, threads.writes) for path, keep in forms.items()),
            *asset_routes(),
            _metrics_route(metrics, threads.scrapes),
        ],
        exception_handlers={
            CollectorError: refusals.collector_error,
            HTTPException: refusals.http_error,
            Exception: refusals.internal_error,
        },
    )
    app.router.redirect_slashes = False
    return app


_HELD_UP: Final = "the collector cannot work now: its log says why"


def _health_routes(health: Callable[[], str | None], *, is_open: bool) -> list[Route]:
    """Return the routes of the probes. Whoever needs no key anyway is told the reason, which may quote what is stored;
    strangers are not."""

    async def healthz(request: Request) -> Response:
        return json_response(encode({"status": "ok"}))

    async def readyz(request: Request) -> Response:
        reason = health()
        if reason is None:
            return json_response(encode({"status": "ready"}))
        return error_response(503, "unavailable", reason if is_open else _HELD_UP)

    return [Route("/healthz", healthz), Route("/readyz", readyz)]


def _metrics_route(metrics: Callable[[Mapping[str, str], Caller], tuple[bytes, str]], scrapes: BoundedThreads) -> Route:
    async def scrape(request: Request) -> Response:
        body, content_type = await scrapes.run(partial(metrics, request.headers, request.state.caller))
        return Response(body, headers={"Content-Type": content_type})

    return Route("/metrics", scrape, middleware=[Middleware(GZipMiddleware)])


def _page_route(path: str, make: Callable[[Parameters], str], headers: Mapping[str, str], threads: WebThreads) -> Route:
    # The page of a trace shows its spans.
    shows_spans = path.startswith("/traces/")
    pool = threads.spans if shows_spans else threads.reads

    def made(parameters: Parameters) -> str:
        with threads.room_for(spans=shows_spans):
            return make(parameters)

    async def answer(request: Request) -> Response:
        parameters = {**request.query_params, **request.path_params, **_signed_in(request)}
        page = await pool.run(partial(made, parameters))
        return HeldResponse(threads.memory, page, "text/html", {**_SCRIPTED, **headers})

    return Route(path, answer)


def _signed_in(request: Request) -> Mapping[str, str]:
    """Return the parameters that say who is logged in at a proxy: the name that forms have for who writes."""
    user = user_of(request)
    return {} if user is None else {"by": user, "signed_in": "yes"}


def _form_route(
    path: str, keep: Callable[[Gate, Parameters], str], reports: Reports, guard: WriteGuard, writes: BoundedThreads
) -> Route:
    """Return the route that takes a page's form and redirects to the address that `keep` returns."""

    async def answer(request: Request) -> Response:
        form = review.form_fields(await read_body(request, "application/x-www-form-urlencoded"))
        signed_in = _signed_in(request)
        guard.check(request.headers, form.get("token", ""), has_user=bool(signed_in))
        # Status 303 (see other), so that a reload of the next page does not send the form again.
        fields = {**form, **request.path_params, **signed_in}
        return RedirectResponse(await writes.run(partial(keep, Gate(reports, request.state.caller), fields)), 303)

    return Route(path, answer, methods=["POST"])
