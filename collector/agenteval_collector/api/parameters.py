"""The parameters of requests: a misspelt one is refused, an empty one counts as left out."""

from starlette.requests import Request

from agenteval_collector.api.sessions import PARAMETERS
from agenteval_collector.runtime.errors import InvalidRequest


def check_names(request: Request, *known: str) -> None:
    """Refuse unknown parameters: a misspelt one would get the answer to another question."""
    unknown = sorted(set(request.query_params) - set(known))
    if unknown:
        there_are = f"there are {', '.join(known)}" if known else "there are none"
        raise InvalidRequest(f"{unknown[0][:64]!r} is no parameter of {request.url.path[:200]}; {there_are}")


def asked_of(request: Request) -> dict[str, str]:
    """The filter for a listing of sessions that the request asks for."""
    return {name: value for name in PARAMETERS if (value := request.query_params.get(name))}


def required(request: Request, parameter: str) -> str:
    value = optional(request, parameter)
    if value is None:
        raise InvalidRequest(f"{parameter} is missing")
    return value


def optional(request: Request, parameter: str) -> str | None:
    """A query parameter; a form sends what was left empty as an empty text."""
    return request.query_params.get(parameter) or None
