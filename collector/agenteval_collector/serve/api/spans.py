"""The spans of a trace as a tree, and queries for them, while the trace runs or the log still keeps it.

A span is decoded and read only when it is asked for: a large trace has thousands.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.cursors import decode_cursor, encode_cursor, foreign_cursor
from agenteval_collector.model.logged_requests import Origin, resource_of
from agenteval_collector.runtime.times import rfc3339
from agenteval_collector.serve.api import trace_documents
from agenteval_collector.serve.api.document import document
from agenteval_collector.serve.api.otlp_documents import requests_of
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import decode_structure
from otel_agenteval.conventions.dialect import NOTHING, SpanFacts
from otel_agenteval.conventions.messages import ChatMessage
from otel_agenteval.conventions.span_reader import read_span
from otel_agenteval.conventions.spans import STATUS_ERROR, LogRecord, SpanRecord, attributes, log_record, span_record
from otel_agenteval.conventions.tree import Node, grow, in_order

Raw = tuple[bytes, Origin]
MAX_SPANS: Final = 20_000
"""The most spans of a trace that are put in the tree, in the order of arrival."""


class ReadSpan(NamedTuple):
    """A decoded span, its meaning as a dialect reads it, and the spans that it names beside its parent."""

    record: SpanRecord
    facts: SpanFacts
    links: Sequence[Span.Link]


class SpanTree:
    """The spans of a trace as a tree, without duplicates. `nodes` know their times, name and status only."""

    def __init__(self, assembled: AssembledTrace) -> None:
        self._raw: dict[str, Raw] = {}
        records = [self._outlined(raw, origin) for raw, origin in assembled.spans[:MAX_SPANS]]
        ordered = [Node(span=record, facts=NOTHING) for record in in_order(records)]
        self.roots: Sequence[Node] = grow(ordered)
        self.left_out = max(0, len(assembled.spans) - MAX_SPANS)
        self.nodes = {node.id: node for root in self.roots for node in root.below()}
        """By span id, parents before children."""
        self._below: dict[str, int] = defaultdict(int)
        for node in reversed(self.nodes.values()):
            if node.parent is not None:
                self._below[node.parent.id] += 1 + self._below[node.id]
        self._logs = _by_span(assembled.logs)

    def below(self, node: Node) -> int:
        """Count the spans under a node, at any depth."""
        return self._below[node.id]

    def read(self, node: Node) -> ReadSpan:
        """Decode a span, and read it with the dialects that recognise it."""
        raw, origin = self._raw[node.id]
        span = Span.FromString(raw)
        record = span_record(span, resource_of(origin.resource), origin.scope)
        facts, _ = read_span(record, self._logs.get(node.id, ()))
        return ReadSpan(record, facts or NOTHING, span.links)

    def _outlined(self, raw: bytes, origin: Origin) -> SpanRecord:
        span = Span.FromString(raw)
        span_id = span.span_id.hex()
        self._raw[span_id] = raw, origin
        return SpanRecord(
            span_id=span_id or None,
            parent_id=span.parent_span_id.hex() or None,
            name=span.name,
            started_at=span.start_time_unix_nano,
            ended_at=span.end_time_unix_nano,
            status=span.status.code,
        )


def has_failed(node: Node) -> bool:
    """Return whether the span's own status is an error."""
    return node.span.status == STATUS_ERROR


def _by_span(logs: Sequence[Raw]) -> dict[str, list[LogRecord]]:
    by_span: defaultdict[str, list[LogRecord]] = defaultdict(list)
    for raw, origin in logs:
        record = log_record(LogMessage.FromString(raw), resource_of(origin.resource), origin.scope)
        if record.span_id is not None:
            by_span[record.span_id].append(record)
    return by_span


LoadSpans: TypeAlias = Callable[[str], AssembledTrace | None]
"""Returns a trace with its spans; None if not all of them are kept any more. Thread-safe."""
Pricing: TypeAlias = Callable[[str | None, int, int], float | None]
"""Returns the price of input and output tokens of a model in US dollars; None if it is not known."""

FORGOTTEN: Final[trace_documents.SpanPage] = {"items": [], "next_cursor": None, "span_count": None}


class SpanQueries:
    """Queries for the spans of traces, by ids in lower case. Thread-safe. Raises Unavailable if the log does."""

    def __init__(self, load: LoadSpans, price: Pricing) -> None:
        self._load = load
        self._price = price
        # Price tables may be used by one thread at a time, and several threads make pages.
        self._pricing = threading.Lock()

    def tree(self, trace_id: str) -> SpanTree | None:
        """Return the spans of a trace as a tree; None if they are not kept any more."""
        assembled = self._load(trace_id)
        return None if assembled is None else SpanTree(assembled)

    def otlp(self, trace_id: str) -> list[dict[str, Any]]:
        """Return what was recorded of a trace as OTLP/JSON requests; none if it is not kept any more."""
        assembled = self._load(trace_id)
        return [] if assembled is None else requests_of(assembled)

    def page(self, trace_id: str, *, limit: int = 50, cursor: str | None = None) -> trace_documents.SpanPage:
        """Return a page of a trace's spans, parents before children. Raises InvalidRequest for a foreign cursor."""
        tree, start = self.tree(trace_id), 0 if cursor is None else _start(cursor)
        if tree is None:
            return FORGOTTEN
        nodes = list(tree.nodes.values())
        end = start + limit
        return {
            "items": [self.item(tree, node) for node in nodes[start:end]],
            "next_cursor": encode_cursor([end]) if end < len(nodes) else None,
            "span_count": len(nodes),
        }

    def span(self, trace_id: str, span_id: str) -> trace_documents.SpanDocument | None:
        """Return a span in full; None if it is unknown or not kept any more."""
        tree = self.tree(trace_id)
        node = None if tree is None else tree.nodes.get(span_id)
        return None if tree is None or node is None else self.whole(tree, node)

    def item(self, tree: SpanTree, node: Node) -> trace_documents.SpanItem:
        """Return a span as an item of a listing."""
        return trace_documents.SpanItem(**self._fields(tree, node, tree.read(node)))

    def whole(self, tree: SpanTree, node: Node) -> trace_documents.SpanDocument:
        """Return a span in full."""
        span = tree.read(node)
        record, facts = span.record, span.facts
        return {
            **self._fields(tree, node, span),
            "instructions": decode_structure(facts.instructions),
            "input": _messages(facts.input),
            "output": _messages(facts.output),
            "arguments": facts.arguments,
            "result": decode_structure(facts.result),
            "scope": record.scope,
            "attributes": dict(record.attributes),
            "resource": dict(record.resource),
            "events": [
                document(trace_documents.EventDocument, event, time=rfc3339(event.time)) for event in record.events
            ],
            "links": [
                {
                    "trace_id": link.trace_id.hex(),
                    "span_id": link.span_id.hex(),
                    "attributes": attributes(link.attributes),
                }
                for link in span.links
            ],
        }

    def _fields(self, tree: SpanTree, node: Node, span: ReadSpan) -> trace_documents.SpanFields:
        record, facts = span.record, span.facts
        tokens = None if facts.usage is None else (facts.usage.input_tokens, facts.usage.output_tokens)
        failure = (record.status_message or "error") if has_failed(node) else None
        return {
            "span_id": node.id,
            "parent_id": node.parent.id if node.parent else None,
            "depth": node.depth,
            "below": tree.below(node),
            "name": record.name,
            "role": facts.role.value if facts.role else None,
            "agent": facts.agent,
            "model": facts.model,
            "tool": facts.tool,
            "started_at": rfc3339(record.started_at),
            "seconds": max(0, record.ended_at - record.started_at) / 1e9,
            "input_tokens": tokens[0] if tokens else None,
            "output_tokens": tokens[1] if tokens else None,
            "usd": self._usd(facts.model, *tokens) if tokens else None,
            "error": facts.error or failure,
        }

    def _usd(self, model: str | None, input_tokens: int | None, output_tokens: int | None) -> float | None:
        with self._pricing:
            return self._price(model, input_tokens or 0, output_tokens or 0)


def _messages(content: Content | None) -> list[trace_documents.MessageDocument] | None:
    return None if content is None else [_message(message) for message in content.messages]


def _message(message: ChatMessage) -> trace_documents.MessageDocument:
    return document(
        trace_documents.MessageDocument,
        message,
        requests=[document(trace_documents.RequestDocument, request) for request in message.requests],
        results=[response.result for response in message.responses],
    )


def _start(cursor: str) -> int:
    [start] = decode_cursor(cursor, int)
    if start < 0:
        raise foreign_cursor(cursor)
    return int(start)
