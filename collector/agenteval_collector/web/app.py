"""Port 4319: the JSON API, Prometheus metrics, health, and the page; labels are the only thing that is written."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from agenteval_collector.api import problems
from agenteval_collector.api.ports import Reports
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.refusals import Refusals
from agenteval_collector.api.responses import SECURITY_HEADERS, error_response, json_response
from agenteval_collector.api.routes import api_routes, write_routes
from agenteval_collector.api.security import Keys, LoopbackHost, SecurityHeaders
from agenteval_collector.api.sessions import PARAMETERS, session_filter
from agenteval_collector.api.threads import BoundedThreads
from agenteval_collector.api.wire import encode, trace_id_of
from agenteval_collector.api.writing import TOKEN_HEADER, Writers, read_body
from agenteval_collector.model.session_filter import Order
from agenteval_collector.runtime.clock import Clock, SystemClock
from agenteval_collector.runtime.errors import CollectorError
from agenteval_collector.web.pages import Pages, asset
from agenteval_collector.web.problems import mark
from agenteval_collector.web.review import Asked, form_fields, keep

_FOREVER = {"Cache-Control": "max-age=31536000, immutable"}
"""For files that the pages ask for with a hash of their content."""
_OWN_ORIGIN = {"Referrer-Policy": "same-origin"}
"""For pages with a form: with no-referrer, browsers send it without an origin."""
_REVIEW_HEADERS = {
    "Content-Security-Policy": SECURITY_HEADERS["Content-Security-Policy"] + "; script-src 'self'",
    **_OWN_ORIGIN,
}


def make_app(
    queries: Queries,
    reports: Reports,
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
    where it can. What is written goes to `reports`. Where `keys` are given, all paths but /healthz and /readyz want
    one. `loopback` says that the app is bound to a loopback address, so that requests under any other Host are refused.
    `grpc_endpoint` is what the page tells users to send spans to. A read that takes longer than `query_timeout` seconds
    is answered with 503. The counters of refused and timed-out reads are in `app.state.reads`.
    """
    reads = BoundedThreads("api-read", threads=4, waiting=64, timeout=query_timeout)
    # A thread of its own: a scrape must not fail because people look at pages.
    scrapes = BoundedThreads("api-scrape", threads=1, waiting=3, timeout=query_timeout)
    writes = BoundedThreads("api-write", threads=1, waiting=16, timeout=query_timeout)
    writers = Writers(keyed=bool(keys))
    clock = clock or SystemClock()
    pages = Pages(queries, clock=clock, grpc_endpoint=grpc_endpoint)

    refusals = Refusals(pages.error)
    app = Starlette(
        routes=[
            *api_routes(queries, reads),
            *write_routes(queries, reports, writers, writes),
            *_page_routes(pages, reads),
            *_problem_routes(pages, reads, partial(mark, reports, clock), writers, writes),
            *_review_routes(pages, reads, partial(keep, queries, reports), writers, writes),
            *_machine_routes(metrics, health, scrapes),
        ],
        middleware=_middleware(keys, loopback=loopback),
        exception_handlers={
            CollectorError: refusals.collector_error,
            HTTPException: refusals.http_error,
            Exception: refusals.internal_error,
        },
        lifespan=_closing(reads, scrapes, writes),
    )
    app.router.redirect_slashes = False
    app.state.reads = reads
    return app


def _closing(*pools: BoundedThreads) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Return a lifespan that closes these threads when the application ends."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        for pool in pools:
            pool.close()

    return lifespan


def _middleware(keys: Sequence[str], *, loopback: bool) -> list[Middleware]:
    middleware = [Middleware(SecurityHeaders)]
    if loopback:
        middleware.append(Middleware(LoopbackHost))
    if keys:
        middleware.append(Middleware(Keys, keys=keys, open_paths=("/healthz", "/readyz")))
    return middleware


def _machine_routes(
    metrics: Callable[[], tuple[bytes, str]], health: Callable[[], str | None], scrapes: BoundedThreads
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

    compressed = [Middleware(GZipMiddleware)]
    return [Route("/metrics", scrape, middleware=compressed), Route("/healthz", healthz), Route("/readyz", readyz)]


def _page_routes(pages: Pages, reads: BoundedThreads) -> list[Route]:
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
        return Response(asset("style.css"), media_type="text/css", headers=_FOREVER)

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
        return HTMLResponse(page, headers={**_REVIEW_HEADERS, TOKEN_HEADER: writers.token})

    async def label(request: Request) -> Response:
        form = form_fields(await read_body(request, "application/x-www-form-urlencoded"))
        writers.check(request.headers, form.get("token", ""))
        return RedirectResponse(await writes.run(lambda: keep(form)), 303)

    async def script(request: Request) -> Response:
        return Response(asset("review.js"), media_type="text/javascript", headers=_FOREVER)

    return [Route("/review", review), Route("/review", label, methods=["POST"]), Route("/review.js", script)]
