"""Find the traces in requests, and take single ones out. A request holds spans of several traces and sessions."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.ingest.request_file import TOGETHER, RequestFile
from agenteval_collector.model.logged_requests import LoggedRequest, Signal
from otel_agenteval.proto.v1.frame_pb2 import Frame

PAGE: Final = 32
"""Requests that are read together."""

_FIRST: Final = b"\x0a\x10"
"""The key of a span's first field, its trace id, and the length of one."""

DoomedTraces: TypeAlias = Callable[[Iterable[str]], Mapping[str, int]]
"""Returns which of the given traces are to be erased, each with the offset up to which its spans are."""


def trace_of(signal: Signal, raw: bytes) -> bytes:
    """Return the trace id of a span or log record; empty if it has none."""
    if signal is Signal.LOGS:
        return LogRecord.FromString(raw).trace_id
    # Every encoder writes the id first, and once. Reading two bytes is far cheaper than parsing a span.
    return raw[2:18] if raw.startswith(_FIRST) else Span.FromString(raw).trace_id


def erase_page(file: RequestFile, start: int, last: int, doomed: DoomedTraces) -> tuple[int | None, Counter[str]]:
    """Erase the `doomed` traces from a page of requests, from offset `start` on and up to `last`.

    Returns the offset to go on from, None at the end, and the numbers of removed `spans`, `log_records` and `bytes`.
    Raises Unavailable if the file refuses; nothing is erased then.
    """
    page: list[LoggedRequest] = []
    for request in islice(file.read(start, PAGE), PAGE):
        if request.offset > last:
            break
        page.append(request)
        if sum(len(request.body) for request in page) >= TOGETHER:
            break
    removed: Counter[str] = Counter()
    if not page:
        return None, removed
    traces = {request.offset: traces_of(request.signal, request.body) for request in page}
    trace_ids = doomed({trace_id.hex() for trace in traces.values() for trace_id in trace})
    changed: dict[int, bytes | None] = {}
    for request in page:
        of_request = {trace for trace in traces[request.offset] if trace_ids.get(trace.hex(), -1) >= request.offset}
        if of_request:
            changed[request.offset] = without(request, of_request, removed)
    if changed:
        file.rewrite(changed)
    return page[-1].offset + 1, removed


def without(request: LoggedRequest, trace_ids: Collection[bytes], removed: Counter[str]) -> bytes | None:
    """Return the body of a request without these traces; None if nothing is left. Adds to the counts in
    `removed`."""
    frame = Frame.FromString(request.body)
    name = "spans" if request.signal is Signal.TRACES else "log_records"
    for resource in frame.resources:
        for scope in resource.scopes:
            spans = [raw for raw in scope.items if trace_of(request.signal, raw) not in trace_ids]
            removed[name] += len(scope.items) - len(spans)
            scope.items[:] = spans
        _drop(resource.scopes, lambda scope: not scope.items)
    _drop(frame.resources, lambda resource: not resource.scopes)
    body = frame.SerializeToString() if frame.resources else None
    removed["bytes"] += len(request.body) - len(body or b"")
    return body


def _drop(field: Any, is_empty: Callable[[Any], bool]) -> None:
    """Remove the empty messages of a repeated field."""
    for at in reversed(range(len(field))):
        if is_empty(field[at]):
            del field[at]


def traces_of(signal: Signal, body: bytes) -> set[bytes]:
    """Return the trace ids in a request; an empty one for what is of no trace."""
    return {
        trace_of(signal, raw)
        for resource in Frame.FromString(body).resources
        for scope in resource.scopes
        for raw in scope.items
    }
