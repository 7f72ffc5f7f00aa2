"""Ask a collector over its API, and tell it something; errors say in one sentence why that failed."""

from collections.abc import Callable
from typing import Any

from otel_agenteval.doctor.web import NoAnswer, Web


class ApiError(Exception):
    """No usable answer; the message is a sentence for the user."""


class UnknownError(ApiError):
    """The collector does not know what was asked for."""


def get(url: str, path: str, key: str | None) -> Any:
    """Return the JSON document at `path` of the collector at `url`.

    Raises ApiError where no collector answers, where it refuses the key, or does not know what was asked for.
    """
    return _answer(url, key, lambda web: web.get(path))


def post(url: str, path: str, document: object, key: str | None) -> Any:
    """Post a JSON document to `path` of the collector at `url`; return what it answers. Raises ApiError."""
    return _answer(url, key, lambda web: web.post(path, document))


def _answer(url: str, key: str | None, ask: Callable[[Web], tuple[int, Any]]) -> Any:
    try:
        status, document = ask(Web(url, key))
    except NoAnswer as problem:
        raise ApiError(f"{problem}: {problem.advice}") from problem
    if status == 401:
        which = "does not accept this key" if key else "wants a key"
        raise ApiError(f"the collector at {url} {which}: give it with --api-key or AGENTEVAL_API_KEY")
    match document:
        case {"error": {"message": str(message)}}:
            raise (UnknownError if status == 404 else ApiError)(message)
        case dict() if status == 200:
            return document
    raise ApiError(f"what answers at {url} is not a collector (status {status}): give the address of its web port")
