"""Answer queries for the spans of a trace: of one that is running, else as far as the log still keeps them."""

import threading
from collections.abc import Callable
from typing import Final, TypeAlias

from agenteval_collector.api.span_documents import (
    EventDocument,
    MessageDocument,
    RequestDocument,
    SpanDocument,
    SpanFields,
    SpanItem,
    SpanPage,
)
from agenteval_collector.api.span_tree import ReadSpan, SpanTree, has_failed
from agenteval_collector.model.assembled import AssembledTrace
from agenteval_collector.model.cursors import decode_cursor, encode_cursor, foreign_cursor
from agenteval_collector.runtime.times import rfc3339
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import decode_structure
from otel_agenteval.conventions.messages import Message
from otel_agenteval.conventions.tree import Node

LoadSpans: TypeAlias = Callable[[str], AssembledTrace | None]
"""Returns a trace with its spans; None where they, or some of them, are not kept any more. Thread-safe."""
Pricing: TypeAlias = Callable[[str | None, int, int], float | None]
"""Returns what input and output tokens of a model cost, in US dollars; None where that is not known."""

FORGOTTEN: Final[SpanPage] = {"items": [], "next_cursor": None, "span_count": None}


def _no_price(model: str | None, input_tokens: int, output_tokens: int) -> None:
    return None


def _no_spans(trace_id: str) -> None:
    return None


class SpanQueries:
    """Queries for the spans of traces, by ids in lower case. Thread-safe. Raises Unavailable where the log does."""

    def __init__(self, load: LoadSpans = _no_spans, price: Pricing = _no_price) -> None:
        self._load = load
        self._price = price
        self._pricing = threading.Lock()

    def tree(self, trace_id: str) -> SpanTree | None:
        """Return the spans of a trace by their nesting; None where they are not kept any more."""
        assembled = self._load(trace_id)
        return None if assembled is None else SpanTree(assembled)

    def page(self, trace_id: str, *, limit: int = 50, cursor: str | None = None) -> SpanPage:
        """Return spans of a trace, each before those under it. Raises InvalidRequest for a foreign cursor."""
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

    def span(self, trace_id: str, span_id: str) -> SpanDocument | None:
        """Return a span with all that was recorded on it; None where it is unknown, or not kept any more."""
        tree = self.tree(trace_id)
        node = None if tree is None else tree.nodes.get(span_id)
        return None if tree is None or node is None else self.whole(tree, node)

    def item(self, tree: SpanTree, node: Node) -> SpanItem:
        """Return a span as a listing has it."""
        return SpanItem(**self._fields(tree, node, tree.read(node)))

    def whole(self, tree: SpanTree, node: Node) -> SpanDocument:
        """Return a span with all that was recorded on it."""
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
                EventDocument(name=event.name, time=rfc3339(event.time), attributes=dict(event.attributes))
                for event in record.events
            ],
        }

    def _fields(self, tree: SpanTree, node: Node, span: ReadSpan) -> SpanFields:
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

    def _usd(self, model: str | None, input_tokens: int, output_tokens: int) -> float | None:
        with self._pricing:
            return self._price(model, input_tokens, output_tokens)


def _messages(content: Content | None) -> list[MessageDocument] | None:
    return None if content is None else [_message(each) for each in content.messages]


def _message(message: Message) -> MessageDocument:
    return {
        "role": message.role,
        "text": message.text,
        "reasoning": message.reasoning,
        "requests": [RequestDocument(name=each.name, arguments=each.arguments) for each in message.requests],
        "results": [each.result for each in message.responses],
    }


def _start(cursor: str) -> int:
    [start] = decode_cursor(cursor, int)
    if start < 0:
        raise foreign_cursor(cursor)
    return int(start)
