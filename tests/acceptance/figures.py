"""What a collector says of all that it has: to be compared with what another one says of the same telemetry."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

Get = Callable[[str], Any]
"""Asks the web port for a path."""


def figures(get: Get) -> dict[str, Any]:
    """Return every document of sessions, traces, agents and problems, by its path."""
    paths = ["/api/v1/agents", "/api/v1/problems", "/api/v1/quality"]
    for session in items(get, "/api/v1/sessions?limit=200"):
        path = f"/api/v1/sessions/{quote(session['session_id'], safe='')}"
        paths.append(path)
        paths += [f"/api/v1/traces/{trace_id}" for trace_id in get(path)["trace_ids"]]
    return {path: get(path) for path in paths}


def items(get: Get, path: str) -> Iterator[Any]:
    """Yield the items of all pages of a list."""
    after = ""
    while True:
        page = get(f"{path}{after}")
        yield from page["items"]
        if not page["next_cursor"]:
            return
        after = f"&cursor={page['next_cursor']}"
