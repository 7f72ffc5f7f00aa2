"""Requests of commands to the API of a collector: options that name the collector, and errors in one sentence."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Final

import typer

from agenteval_collector.cli.terminal import clean, console, fail, failing_on
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.runtime.times import rfc3339
from agenteval_collector.serve.api import wire
from otel_agenteval.doctor.web import Web
from otel_agenteval.loops.setting_values import seconds
from otel_agenteval.reader import ApiError, UnknownError, answer_of

Url = Annotated[str, typer.Option("--url", envvar="AGENTEVAL_URL", help="The collector's web port.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="AGENTEVAL_API_KEY",
        help="A key for the collector, where it asks for one.",
        show_envvar=True,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]
Environment = Annotated[str | None, typer.Option(help="Only what happened in this environment.")]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only what was seen since 30m or 2d ago, or 2026-03-02T09:00:00Z.")
]
_KEY_GOES_IN: Final = "--api-key or AGENTEVAL_API_KEY"


def get(url: str, path: str, key: str | None) -> Any:
    """Return the JSON document at `path` of the collector at `url`.

    Raises ApiError if no collector answers, if it refuses the key, or if it does not know the requested thing.
    """
    return answer_of(Web(url, key), lambda web: web.get(path), _KEY_GOES_IN)


def post(url: str, path: str, document: object, key: str | None) -> Any:
    """Post a JSON document to `path` of the collector at `url`, and return the answer. Raises ApiError."""
    return answer_of(Web(url, key), lambda web: web.post(path, document), _KEY_GOES_IN)


def answer(show: Callable[[Any], None], path: str, url: str, key: str | None, as_json: bool) -> None:
    """Print the collector's answer, as JSON or as `show` does. Below a page of a listing, say if there are more."""
    document = fetch(url, path, key)
    if as_json:
        typer.echo(json.dumps(document))
    else:
        show(document)
        if document.get("next_cursor"):
            console().print("There are more: raise --limit, or follow next_cursor in the API.", style="dim")


def fetch(url: str, path: str, key: str | None) -> Any:
    """Return the collector's answer. End the command with a sentence if there is none."""
    with failing_on(ApiError):
        return get(url, path, key)


def fetch_known(url: str, path: str, key: str | None) -> Any:
    """Return the collector's answer as `fetch` does, but None if the collector does not know the requested thing."""
    with failing_on(ApiError), suppress(UnknownError):
        return get(url, path, key)
    return None


def tell(url: str, path: str, document: object, key: str | None) -> Any:
    """Post a document and return the answer. End the command with a sentence if the collector does not take it."""
    with failing_on(ApiError):
        return post(url, path, document, key)


def time_of(option: str, text: str | None) -> str | None:
    """Return a time for the API: a length such as `30m` becomes the time that long ago. End the command for a text
    that is neither."""
    with suppress(ValueError):
        return rfc3339(SystemClock().now() - round(seconds(text) * 1e9)) if text else None
    try:
        wire.time_of(option, text or "")
    except InvalidRequest as error:
        fail(clean(f"{error}, nor a length such as 30m or 2d"))
    return text
