"""Port 4319: the JSON API, Prometheus metrics, health, and the page."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agenteval_collector.api import problems
from agenteval_collector.api.endpoints import range_of
from agenteval_collector.api.ports import Reports
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.refusals import Refusals
from agenteval_collector.api.responses import SECURITY_HEADERS, error_response, json_response
from agenteval_collector.api.routes import api_routes, write_routes
from agenteval_collector.api.security import Keys, LoopbackHost, SecurityHeaders
from agenteval_collector.api.sessions import PARAMETERS, session_filter
from agenteval_collector.api.threads import BoundedThreads, WebThreads
from agenteval_collector.api.wire import encode, trace_id_of
from agenteval_collector.api.writing import Writers, read_body
from agenteval_collector.doors.audit import Audit
from agenteval_collector.doors.keys import KeyRing
from agenteval_collector.doors.shares import Shares
from agenteval_collector.model.callers import Caller
from agenteval_collector.model.session_filter import Order
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import CollectorError
from agenteval_collector.web.agents import AgentPages
from agenteval_collector.web.assets import asset_routes
from agenteval_collector.web.pages import Pages
from agenteval_collector.web.problems import mark
from agenteval_collector.web.reliability import PARAMETERS as RUNS_ASKED
from agenteval_collector.web.review import Asked, form_fields, keep
from agenteval_collector.web.waterfall import focus_of

_OWN_ORIGIN = {"Referrer-Policy": "same-origin"}
"""For pages with a form: with no-referrer, browsers send it without an origin."""
_SCRIPTED = {"Content-Security-Policy": SECURITY_HEADERS["Content-Security-Policy"] + "; script-src 'self'"}
"""For pages with a script of ours."""


def make_app(
    app: ASGIApp,
    *,
    health: Callable[[], str | None],
    threads: WebThreads,
    ring: KeyRing,
    audit: Audit,
    places: Shares,
    loopback: bool,
) -> Starlette:
    """Return the ASGI application of the web port: what stands before `app`, which knows who calls.

    `health` says why the collector cannot do its work now, None where it can. Where the `ring` is not open, all paths
    but /healthz and /readyz want one of its keys; `audit` hears of what is written and refused. Callers share
    the `places` for requests under way. `loopback` says that the port is bound to a loopback address, so that requests
    under any other Host are refused. `threads` are closed when it ends.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        threads.close()

    port = Starlette(
        routes=_health_routes(health), middleware=_middleware(ring, audit, places, loopback=loopback), lifespan=lifespan
    )
    # Not as a mount, whose pattern does not match every id.
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
    """Return the ASGI application of one tenant: the API, the page, and the metrics.

    `metrics` returns a page for Prometheus and its content type, given the headers of a request and its caller. What is
    written goes to `reports`. `keyed`: each caller has shown a key. `grpc_endpoint` is what the page tells users to
    send spans to.
    """
    reads, writes = threads.reads, threads.writes
    writers = Writers(keyed=keyed)
    pages = Pages(queries, clock=clock, grpc_endpoint=grpc_endpoint)

    refusals = Refusals(pages.error)
    app = Starlette(
        routes=[
            *api_routes(queries, reads),
            *write_routes(queries, reports, writers, writes),
            *_page_routes(pages, reads),
            *_agent_routes(pages.agents, reads),
            *_problem_routes(pages, reads, partial(mark, reports, clock), writers, writes),
            *_review_routes(pages, reads, partial(keep, queries, reports), writers, writes),
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


def _middleware(ring: KeyRing, audit: Audit, places: Shares, *, loopback: bool) -> list[Middleware]:
    middleware = [Middleware(SecurityHeaders)]
    if loopback:
        middleware.append(Middleware(LoopbackHost))
    return [*middleware, Middleware(Keys, ring=ring, audit=audit, places=places, open_paths=("/healthz", "/readyz"))]


def _health_routes(health: Callable[[], str | None]) -> list[Route]:
    async def healthz(request: Request) -> Response:
        return json_response(encode({"status": "ok"}))

    async def readyz(request: Request) -> Response:
        reason = health()
        if reason is None:
            return json_response(encode({"status": "ready"}))
        return error_response(503, "unavailable", reason)

    return [Route("/healthz", healthz), Route("/readyz", readyz)]


def _metrics_route(metrics: Callable[[Mapping[str, str], Caller], tuple[bytes, str]], scrapes: BoundedThreads) -> Route:
    async def scrape(request: Request) -> Response:
        body, content_type = await scrapes.run(partial(metrics, request.headers, request.state.caller))
        return Response(body, headers={"Content-Type": content_type})

    return Route("/metrics", scrape, middleware=[Middleware(GZipMiddleware)])


def _page_routes(pages: Pages, reads: BoundedThreads) -> list[Route]:
    async def start(request: Request) -> Response:
        return HTMLResponse(await reads.run(pages.start))

    async def sessions(request: Request) -> Response:
        given = request.query_params
        asked = {name: given[name] for name in PARAMETERS if given.get(name)}
        wanted = session_filter({"order": Order.ATTENTION, **asked})
        return HTMLResponse(await reads.run(lambda: pages.sessions(wanted, asked, cursor=given.get("cursor") or None)))

    async def session(request: Request) -> Response:
        session_id, older_than = request.path_params["session_id"], request.query_params.get("older_than") or None
        return HTMLResponse(await reads.run(lambda: pages.session(session_id, older_than=older_than)))

    async def trace(request: Request) -> Response:
        trace_id, focus = trace_id_of(request.path_params["trace_id"]), focus_of(request.query_params)
        return HTMLResponse(await reads.run(lambda: pages.trace(trace_id, focus)))

    async def quality(request: Request) -> Response:
        cursor = request.query_params.get("cursor") or None
        return HTMLResponse(await reads.run(lambda: pages.quality(cursor=cursor)))

    async def reliability(request: Request) -> Response:
        given = request.query_params
        asked, cursor = {name: given[name] for name in RUNS_ASKED if given.get(name)}, given.get("cursor") or None
        return HTMLResponse(await reads.run(lambda: pages.reliability.reliability(asked, cursor=cursor)))

    return [
        Route("/", start),
        Route("/sessions", sessions),
        Route("/sessions/{session_id:anytext}", session),
        Route("/traces/{trace_id}", trace),
        Route("/quality", quality),
        Route("/reliability", reliability),
        *asset_routes(),
    ]


def _agent_routes(pages: AgentPages, reads: BoundedThreads) -> list[Route]:
    async def listed(request: Request) -> Response:
        chosen, cursor = range_of(request.query_params), request.query_params.get("cursor") or None
        return HTMLResponse(await reads.run(lambda: pages.agents(chosen, cursor=cursor)))

    async def agent(request: Request) -> Response:
        name, given = request.path_params["agent"], request.query_params
        chosen = range_of(given)
        return HTMLResponse(await reads.run(lambda: pages.agent(name, chosen, given)), headers=_SCRIPTED)

    return [Route("/agents", listed), Route("/agents/{agent:anytext}", agent)]


def _problem_routes(
    pages: Pages,
    reads: BoundedThreads,
    mark: Callable[[str, Mapping[str, str]], str],
    writers: Writers,
    writes: BoundedThreads,
) -> list[Route]:
    async def listed(request: Request) -> Response:
        given = request.query_params
        asked = {name: given[name] for name in problems.PARAMETERS if given.get(name)}
        wanted, cursor = problems.problem_filter(asked), given.get("cursor") or None
        return HTMLResponse(await reads.run(lambda: pages.problems(wanted, asked, cursor=cursor)))

    async def problem(request: Request) -> Response:
        problem_id = request.path_params["problem_id"].lower()
        page = await reads.run(lambda: pages.problem(problem_id, token=writers.token))
        return HTMLResponse(page, headers=_OWN_ORIGIN)

    async def said(request: Request) -> Response:
        form = form_fields(await read_body(request, "application/x-www-form-urlencoded"))
        writers.check(request.headers, form.get("token", ""))
        return RedirectResponse(await writes.run(lambda: mark(request.path_params["problem_id"], form)), 303)

    return [
        Route("/problems", listed),
        Route("/problems/{problem_id}", problem),
        Route("/problems/{problem_id}", said, methods=["POST"]),
    ]


def _review_routes(
    pages: Pages,
    reads: BoundedThreads,
    keep: Callable[[Mapping[str, str]], str],
    writers: Writers,
    writes: BoundedThreads,
) -> list[Route]:
    async def review(request: Request) -> Response:
        asked = Asked.of(request.query_params)
        page = await reads.run(lambda: pages.review(asked, token=writers.token))
        return HTMLResponse(page, headers={**_SCRIPTED, **_OWN_ORIGIN})

    async def label(request: Request) -> Response:
        form = form_fields(await read_body(request, "application/x-www-form-urlencoded"))
        writers.check(request.headers, form.get("token", ""))
        return RedirectResponse(await writes.run(lambda: keep(form)), 303)

    return [Route("/review", review), Route("/review", label, methods=["POST"])]
