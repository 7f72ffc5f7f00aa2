"""Port 4319: the JSON API, Prometheus metrics, health, and the page; all of it read-only."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from agenteval_collector.api.queries import Queries
from agenteval_collector.api.refusals import Refusals
from agenteval_collector.api.responses import error_response, json_response
from agenteval_collector.api.routes import api_routes
from agenteval_collector.api.security import Keys, LoopbackHost, SecurityHeaders
from agenteval_collector.api.sessions import PARAMETERS, session_filter
from agenteval_collector.api.threads import ReadingThreads
from agenteval_collector.api.wire import encode, trace_id_of
from agenteval_collector.model.session_filter import Order
from agenteval_collector.runtime.clock import Clock, SystemClock
from agenteval_collector.runtime.errors import CollectorError
from agenteval_collector.web.pages import Pages, asset


def make_app(
    queries: Queries,
    *,
    metrics: Callable[[], tuple[bytes, str]],
    health: Callable[[], str | None],
    keys: Sequence[str] = (),
    loopback: bool = True,
    clock: Clock | None = None,
    grpc_endpoint: str = "http://127.0.0.1:4317",
    query_timeout: float = 5.0,
) -> Starlette:
    """Return the ASGI application of the web port.

    `metrics` returns a Prometheus scrape and its content type, `health` why the collector cannot do its work now, None
    where it can. Where `keys` are given, all paths but /healthz and /readyz want one. `loopback` says that the app is
    bound to a loopback address, so that requests under any other Host are refused. `grpc_endpoint` is what the page
    tells users to send spans to. A read that takes longer than `query_timeout` seconds is answered with 503. The
    counters of refused and timed-out reads are in `app.state.reads`.
    """
    reads = ReadingThreads("api-read", threads=4, waiting=64, timeout=query_timeout)
    # A thread of its own: a scrape must not fail because people look at pages.
    scrapes = ReadingThreads("api-scrape", threads=1, waiting=3, timeout=query_timeout)
    pages = Pages(queries, clock=clock or SystemClock(), grpc_endpoint=grpc_endpoint)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        reads.close()
        scrapes.close()

    refusals = Refusals(pages.error)
    app = Starlette(
        routes=[
            *api_routes(queries, reads),
            *_page_routes(pages, reads),
            *_machine_routes(metrics, health, scrapes),
        ],
        middleware=_middleware(keys, loopback=loopback),
        exception_handlers={
            CollectorError: refusals.collector_error,
            HTTPException: refusals.http_error,
            Exception: refusals.internal_error,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.reads = reads
    return app


def _middleware(keys: Sequence[str], *, loopback: bool) -> list[Middleware]:
    middleware = [Middleware(SecurityHeaders)]
    if loopback:
        middleware.append(Middleware(LoopbackHost))
    if keys:
        middleware.append(Middleware(Keys, keys=keys, open_paths=("/healthz", "/readyz")))
    return middleware


def _machine_routes(
    metrics: Callable[[], tuple[bytes, str]], health: Callable[[], str | None], scrapes: ReadingThreads
) -> list[Route]:
    async def scrape(request: Request) -> Response:
        body, content_type = await scrapes.run(metrics)
        return Response(body, headers={"Content-Type": content_type})

    async def healthz(request: Request) -> Response:
        return json_response(encode({"status": "ok"}))

    async def readyz(request: Request) -> Response:
        reason = health()
        if reason is None:
            return json_response(encode({"status": "ready"}))
        return error_response(503, "unavailable", reason)

    return [Route("/metrics", scrape), Route("/healthz", healthz), Route("/readyz", readyz)]


def _page_routes(pages: Pages, reads: ReadingThreads) -> list[Route]:
    async def sessions(request: Request) -> Response:
        given = request.query_params
        asked = {name: given[name] for name in PARAMETERS if given.get(name)}
        wanted = session_filter({"order": Order.ATTENTION, **asked})
        return HTMLResponse(await reads.run(lambda: pages.sessions(wanted, asked, cursor=given.get("cursor") or None)))

    async def session(request: Request) -> Response:
        session_id, older_than = request.path_params["session_id"], request.query_params.get("older_than") or None
        return HTMLResponse(await reads.run(lambda: pages.session(session_id, older_than=older_than)))

    async def trace(request: Request) -> Response:
        trace_id = trace_id_of(request.path_params["trace_id"])
        return HTMLResponse(await reads.run(lambda: pages.trace(trace_id)))

    async def quality(request: Request) -> Response:
        cursor = request.query_params.get("cursor") or None
        return HTMLResponse(await reads.run(lambda: pages.quality(cursor=cursor)))

    async def style(request: Request) -> Response:
        # The pages ask for it with a hash of its content, so that it never changes under one address.
        headers = {"Cache-Control": "max-age=31536000, immutable"}
        return Response(asset("style.css"), media_type="text/css", headers=headers)

    async def icon(request: Request) -> Response:
        return Response(asset("icon.svg"), media_type="image/svg+xml", headers={"Cache-Control": "max-age=86400"})

    return [
        Route("/", sessions),
        Route("/sessions/{session_id:anytext}", session),
        Route("/traces/{trace_id}", trace),
        Route("/quality", quality),
        Route("/style.css", style),
        Route("/icon.svg", icon),
    ]
