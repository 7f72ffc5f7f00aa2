"""Port 4319: the JSON API, Prometheus metrics, health, and the page; all of it read-only."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from agenteval_collector.api.refusals import Refusals
from agenteval_collector.api.responses import error_response, json_response
from agenteval_collector.api.security import Keys, LoopbackHost, SecurityHeaders
from agenteval_collector.api.sessions import PARAMETERS, session_filter
from agenteval_collector.api.threads import ReadingThreads
from agenteval_collector.api.wire import encode, found, limit_of, trace_id_of
from agenteval_collector.clock import Clock, SystemClock
from agenteval_collector.errors import CollectorError, InvalidRequest, NotFound
from agenteval_collector.pipeline import Queries
from agenteval_collector.session_filter import Order
from agenteval_collector.web.pages import Pages, asset


class _AnyText(Convertor[str]):
    """The rest of the path. A session id may hold slashes and line breaks; Starlette's `path` stops at the latter."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anytext", _AnyText())


def make_app(
    queries: Queries,
    *,
    metrics: Callable[[], tuple[bytes, str]],
    ready: Callable[[], bool],
    keys: Sequence[str] = (),
    loopback: bool = True,
    clock: Clock | None = None,
    grpc_endpoint: str = "http://127.0.0.1:4317",
    query_timeout: float = 5.0,
) -> Starlette:
    """The ASGI application of the web port.

    `metrics` returns a Prometheus scrape and its content type, `ready` whether every port accepts. Where `keys`
    are given, all paths but /healthz and /readyz want one. `loopback` says that the app is bound to a loopback
    address, so that requests under any other Host are refused. `grpc_endpoint` is what the page tells users to send
    spans to. A read that takes longer than `query_timeout` seconds is answered with 503. The counters of refused
    and timed-out reads are in `app.state.reads`.
    """
    reads = ReadingThreads("api-read", threads=4, waiting=64, timeout=query_timeout)
    # A thread of its own: a scrape must not fail because people look at pages.
    scrapes = ReadingThreads("api-scrape", threads=1, waiting=3, timeout=query_timeout)
    pages = Pages(queries, clock=clock or SystemClock(), grpc_endpoint=grpc_endpoint)

    async def scrape(request: Request) -> Response:
        body, content_type = await scrapes.run(metrics)
        return Response(body, headers={"Content-Type": content_type})

    async def healthz(request: Request) -> Response:
        return json_response(encode({"status": "ok"}))

    async def readyz(request: Request) -> Response:
        if ready():
            return json_response(encode({"status": "ready"}))
        return error_response(503, "unavailable", "the collector is starting or stopping")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        reads.close()
        scrapes.close()

    middleware = [Middleware(SecurityHeaders)]
    if loopback:
        middleware.append(Middleware(LoopbackHost))
    if keys:
        middleware.append(Middleware(Keys, keys=keys, open_paths=("/healthz", "/readyz")))
    refusals = Refusals(pages.error)
    app = Starlette(
        routes=[
            *_api_routes(queries, reads),
            *_page_routes(pages, reads),
            Route("/metrics", scrape),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
        ],
        middleware=middleware,
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


def _api_routes(queries: Queries, reads: ReadingThreads) -> list[Route]:
    async def trace(request: Request) -> Response:
        _check_names(request)
        trace_id = trace_id_of(request.path_params["trace_id"])
        return json_response(await reads.run(lambda: encode(found(queries.trace(trace_id), f"trace {trace_id}"))))

    async def sessions(request: Request) -> Response:
        _check_names(request, *PARAMETERS, "limit", "cursor")
        wanted, cursor = session_filter(_asked(request)), _optional(request, "cursor")
        limit = limit_of(request.query_params.get("limit"))

        def read() -> bytes:
            page = queries.sessions(wanted, limit=limit, cursor=cursor)
            of_agent = {} if wanted.agent is None else {"hit_rate": queries.hit_rate(wanted.agent)}
            return encode({"items": page.items, "next_cursor": page.next_cursor, **of_agent})

        return json_response(await reads.run(read))

    async def session(request: Request) -> Response:
        _check_names(request)
        session_id = request.path_params["session_id"]

        def read() -> bytes:
            return encode(found(queries.session(session_id), f"session {session_id!r}"))

        return json_response(await reads.run(read))

    async def judgements(request: Request) -> Response:
        _check_names(request)
        trace_id = trace_id_of(request.path_params["trace_id"])

        def read() -> bytes:
            items = queries.judgements(trace_id)
            if items is None:
                raise NotFound(f"trace {trace_id} is not known to this collector")
            return encode({"items": items, "next_cursor": None})

        return json_response(await reads.run(read))

    async def agreement(request: Request) -> Response:
        _check_names(request, "name")
        name = _optional(request, "name")
        return json_response(
            await reads.run(lambda: encode({"items": queries.agreement(name=name), "next_cursor": None}))
        )

    async def reliability(request: Request) -> Response:
        _check_names(request, "agent", "version", "variant", "limit", "cursor")
        agent, version, variant = (_optional(request, name) for name in ("agent", "version", "variant"))
        limit, cursor = limit_of(request.query_params.get("limit")), _optional(request, "cursor")

        def read() -> bytes:
            page = queries.reliability(agent=agent, version=version, variant=variant, limit=limit, cursor=cursor)
            return encode({"items": page.items, "next_cursor": page.next_cursor})

        return json_response(await reads.run(read))

    async def comparison(request: Request) -> Response:
        _check_names(request, "before", "after", "agent", "variant")
        before, after = (_required(request, name) for name in ("before", "after"))
        agent, variant = _optional(request, "agent"), _optional(request, "variant")

        def read() -> bytes:
            return encode(queries.reliability_comparison(before, after, agent=agent, variant=variant))

        return json_response(await reads.run(read))

    return [
        Route("/api/v1/reliability", reliability),
        Route("/api/v1/reliability/comparison", comparison),
        Route("/api/v1/traces/{trace_id}", trace),
        Route("/api/v1/traces/{trace_id}/judgements", judgements),
        Route("/api/v1/agreement", agreement),
        Route("/api/v1/sessions", sessions),
        Route("/api/v1/sessions/{session_id:anytext}", session),
    ]


def _page_routes(pages: Pages, reads: ReadingThreads) -> list[Route]:
    async def sessions(request: Request) -> Response:
        asked, cursor = _asked(request), _optional(request, "cursor")
        wanted = session_filter({"order": Order.ATTENTION, **asked})
        return HTMLResponse(await reads.run(lambda: pages.sessions(wanted, asked, cursor=cursor)))

    async def session(request: Request) -> Response:
        session_id, older_than = request.path_params["session_id"], _optional(request, "older_than")
        return HTMLResponse(await reads.run(lambda: pages.session(session_id, older_than=older_than)))

    async def trace(request: Request) -> Response:
        trace_id = trace_id_of(request.path_params["trace_id"])
        return HTMLResponse(await reads.run(lambda: pages.trace(trace_id)))

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
        Route("/style.css", style),
        Route("/icon.svg", icon),
    ]


def _check_names(request: Request, *known: str) -> None:
    """A misspelt parameter would be an answer to another question."""
    unknown = sorted(set(request.query_params) - set(known))
    if unknown:
        there_are = f"there are {', '.join(known)}" if known else "there are none"
        raise InvalidRequest(f"{unknown[0][:64]!r} is no parameter of {request.url.path[:200]}; {there_are}")


def _asked(request: Request) -> dict[str, str]:
    """The filter for a listing of sessions that the request asks for."""
    return {name: value for name in PARAMETERS if (value := request.query_params.get(name))}


def _required(request: Request, parameter: str) -> str:
    value = _optional(request, parameter)
    if value is None:
        raise InvalidRequest(f"{parameter} is missing")
    return value


def _optional(request: Request, parameter: str) -> str | None:
    """A query parameter; a form sends what was left empty as an empty text."""
    return request.query_params.get(parameter) or None
