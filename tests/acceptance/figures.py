"""The figures of a collector, to be compared with those of another one that was sent the same telemetry."""

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from tests.support.eventually import eventually

Get = Callable[[str], Any]
"""Asks the web port for a path."""

_WHEN = re.compile(r".*_at|at|since|until|first_seen|last_seen|expires")
"""Fields that tell when something came or was computed, and of which hours that is."""
_OF_ITS_WAY = {"status", "running_traces", "closing"}
"""Fields of documents that tell what is under way in a process, and why it took a trace for complete."""
_OF_ARRIVAL = {"examples", "history", "revision"}
"""Fields that keep how it came: the traces of a problem that were first, whether a trace was the first of its session
then, and in how many parts."""


def figures(get: Get) -> dict[str, Any]:
    """Return what is told of every session, trace, agent and problem, by path, without times and in a fixed order."""
    found = {path: get(f"{path}?limit=500") for path in ("/api/v1/agents", "/api/v1/problems", "/api/v1/quality")}
    for listed in _items(get, "/api/v1/sessions?limit=200"):
        path = f"/api/v1/sessions/{quote(listed['session_id'], safe='')}"
        found[path] = session = get(path) or {}  # It may have joined another one since.
        paths = [f"/api/v1/traces/{trace_id}" for trace_id in session.get("trace_ids", ())]
        found |= {path: get(path) for path in paths}
    for problem in found["/api/v1/problems"]["items"]:
        # The step that is shown is that of the newest trace.
        problem["cause"] = problem["cause"] and {name: problem["cause"][name] for name in ("agent", "tool", "traces")}
    for document in found.values():
        for name in _OF_ITS_WAY:
            document.pop(name, None)
    return {path: _steady(document) for path, document in found.items()}


def settled(get: Get, *, within: float = 120.0) -> dict[str, Any]:
    """Return the figures once two looks, some seconds apart, find the same."""
    last: list[Any] = [None]

    def same() -> Any:
        last.append(figures(get))
        return last[-1] if last[-1] == last[-2] else None

    found: dict[str, Any] = eventually(same, within=within, every=3.0)
    return found


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return a line for each figure that is not the same."""
    return [*_differences(one, other, "")]


def _differences(one: Any, other: Any, where: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            yield from _differences(one.get(name), other.get(name), f"{where} {name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from _differences(mine, theirs, f"{where} {number}")
    elif one != other:
        yield f"{where}: {str(one)[:200]} and {str(other)[:200]}"


def _items(get: Get, path: str) -> Iterator[Any]:
    """Yield the items of all pages of a list."""
    after = ""
    while True:
        page = get(f"{path}{after}")
        yield from page["items"]
        if not page["next_cursor"]:
            return
        after = f"&cursor={page['next_cursor']}"


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _steady(each) for name, each in value.items() if not _WHEN.fullmatch(name) and name not in _OF_ARRIVAL
        }
    if isinstance(value, list):
        return sorted(map(_steady, value), key=repr)
    return value
