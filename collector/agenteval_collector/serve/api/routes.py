"""The routes of the JSON API over HTTP (docs/api.md), and of its description."""

from collections.abc import Sequence

from pydantic import TypeAdapter
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agenteval_collector.model.callers import Caller, Scope
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.answers import DoneDocument
from agenteval_collector.serve.api.endpoints import ENDPOINTS, WRITE_ENDPOINTS, ReadEndpoint, WriteEndpoint
from agenteval_collector.serve.api.gate import Gate
from agenteval_collector.serve.api.openapi import DESCRIPTION_PATH, description
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.serve.api.reports import Reports
from agenteval_collector.serve.api.responses import JSON, HeldResponse, json_response
from agenteval_collector.serve.api.security import user_of
from agenteval_collector.serve.api.threads import BoundedThreads, WebThreads
from agenteval_collector.serve.api.wire import TOKEN_HEADER, TOKEN_PATH, Parameters, encode
from agenteval_collector.serve.api.write_guard import WriteGuard, parsed, read_body
from otel_agenteval.internal.text import storable


class _AnyText(Convertor[str]):
    """The rest of the path, as stores hold it. A session id or an agent's name may hold slashes and line breaks;
    Starlette's `path` stops at line breaks."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return storable(value)

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anytext", _AnyText())


def api_routes(queries: Queries, threads: WebThreads) -> list[Route]:
    """Return a route for each endpoint that reads, and one for the API's description. Endpoints run in `threads`."""

    async def described(request: Request) -> Response:
        _check_names(request, ())
        return json_response(encode(description()))

    return [*(_route(endpoint, queries, threads) for endpoint in ENDPOINTS), Route(DESCRIPTION_PATH, described)]


def _route(endpoint: ReadEndpoint, queries: Queries, threads: WebThreads) -> Route:
    pool = threads.spans if endpoint.reads_spans else threads.reads

    def encoded(parameters: Parameters) -> bytes:
        with threads.room_for(spans=endpoint.reads_spans):
            return encode(endpoint.call(queries, parameters))

    async def answer(request: Request) -> Response:
        _check_names(request, endpoint.parameters)
        parameters = {**request.query_params, **request.path_params}
        body = await pool.run(lambda: encoded(parameters))
        return HeldResponse(threads.memory, body, JSON)

    path = endpoint.path.replace("{session_id}", "{session_id:anytext}").replace("{agent}", "{agent:anytext}")
    return Route(path, answer)


def write_routes(queries: Queries, reports: Reports, guard: WriteGuard, writes: BoundedThreads) -> list[Route]:
    """Return a route for each endpoint that writes, and one for the token that a write carries. Endpoints run in the
    threads `writes`."""

    def route(endpoint: WriteEndpoint) -> Route:
        kind = TypeAdapter(endpoint.body)

        async def answer(request: Request) -> Response:
            caller: Caller = request.state.caller
            caller.require(endpoint.scope)
            gate = Gate(reports, caller)
            user = user_of(request)
            guard.check(request.headers, request.headers.get(TOKEN_HEADER, ""), has_user=user is not None)
            body = parsed(kind, await read_body(request, "application/json"))
            if user is not None and "author" in endpoint.body.__annotations__:
                body["author"] = user
            in_path = request.path_params
            document = await writes.run(lambda: encode(endpoint.call(queries, gate, body, **in_path)))
            is_shown = caller.may(Scope.READ) or not endpoint.shows_content
            return json_response(document if is_shown else encode(DoneDocument(done=True)))

        return Route(endpoint.path, answer, methods=["POST"])

    async def token(request: Request) -> Response:
        _check_names(request, ())
        return json_response(encode({"token": guard.token}))

    return [*map(route, WRITE_ENDPOINTS), Route(TOKEN_PATH, token)]


def _check_names(request: Request, names: Sequence[str]) -> None:
    """Refuse unknown parameters: a misspelt filter would otherwise return everything."""
    unknown = sorted(set(request.query_params) - set(names))
    if unknown:
        there_are = f"there are {', '.join(names)}" if names else "there are none"
        raise InvalidRequest(f"{unknown[0][:64]!r} is no parameter of {request.url.path[:200]}; {there_are}")
