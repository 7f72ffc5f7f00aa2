"""The JSON API over HTTP (docs/api.md); all of it read-only."""

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agenteval_collector.api.parameters import asked_of, check_names, optional, required
from agenteval_collector.api.ports import Queries
from agenteval_collector.api.responses import json_response
from agenteval_collector.api.sessions import PARAMETERS, session_filter
from agenteval_collector.api.threads import ReadingThreads
from agenteval_collector.api.wire import encode, found, limit_of, trace_id_of
from agenteval_collector.runtime.errors import NotFound


class _AnyText(Convertor[str]):
    """The rest of the path. A session id may hold slashes and line breaks; Starlette's `path` stops at the latter."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anytext", _AnyText())


def api_routes(queries: Queries, reads: ReadingThreads) -> list[Route]:
    async def trace(request: Request) -> Response:
        check_names(request)
        trace_id = trace_id_of(request.path_params["trace_id"])
        return json_response(await reads.run(lambda: encode(found(queries.trace(trace_id), f"trace {trace_id}"))))

    async def sessions(request: Request) -> Response:
        check_names(request, *PARAMETERS, "limit", "cursor")
        wanted, cursor = session_filter(asked_of(request)), optional(request, "cursor")
        limit = limit_of(request.query_params.get("limit"))

        def read() -> bytes:
            page = queries.sessions(wanted, limit=limit, cursor=cursor)
            of_agent = {} if wanted.agent is None else {"hit_rate": queries.hit_rate(wanted.agent)}
            return encode({"items": page.items, "next_cursor": page.next_cursor, **of_agent})

        return json_response(await reads.run(read))

    async def session(request: Request) -> Response:
        check_names(request)
        session_id = request.path_params["session_id"]

        def read() -> bytes:
            return encode(found(queries.session(session_id), f"session {session_id!r}"))

        return json_response(await reads.run(read))

    async def judgements(request: Request) -> Response:
        check_names(request)
        trace_id = trace_id_of(request.path_params["trace_id"])

        def read() -> bytes:
            items = queries.judgements(trace_id)
            if items is None:
                raise NotFound(f"trace {trace_id} is not known to this collector")
            return encode({"items": items, "next_cursor": None})

        return json_response(await reads.run(read))

    async def agreement(request: Request) -> Response:
        check_names(request, "name")
        name = optional(request, "name")
        return json_response(
            await reads.run(lambda: encode({"items": queries.agreement(name=name), "next_cursor": None}))
        )

    async def reliability(request: Request) -> Response:
        check_names(request, "agent", "version", "variant", "limit", "cursor")
        agent, version, variant = (optional(request, name) for name in ("agent", "version", "variant"))
        limit, cursor = limit_of(request.query_params.get("limit")), optional(request, "cursor")

        def read() -> bytes:
            page = queries.reliability(agent=agent, version=version, variant=variant, limit=limit, cursor=cursor)
            return encode({"items": page.items, "next_cursor": page.next_cursor})

        return json_response(await reads.run(read))

    async def comparison(request: Request) -> Response:
        check_names(request, "before", "after", "agent", "variant")
        before, after = (required(request, name) for name in ("before", "after"))
        agent, variant = optional(request, "agent"), optional(request, "variant")

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
