"""The spans of a trace by their nesting. Each is decoded and read when it is asked for: a large trace has thousands."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.assembled import AssembledTrace
from agenteval_collector.model.resources import resource_of
from agenteval_collector.model.telemetry import Origin
from otel_agenteval.conventions.facts import NOTHING, SpanFacts
from otel_agenteval.conventions.readings import read_span
from otel_agenteval.conventions.spans import STATUS_ERROR, LogRecord, SpanRecord, log_record, span_record
from otel_agenteval.conventions.tree import Node, grow, in_order

Raw = tuple[bytes, Origin]
MAX_SPANS: Final = 20_000
"""Spans of a trace that are put in order, the first that came."""


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """A span with all that was recorded on it, and what it says in the terms of agents."""

    record: SpanRecord
    facts: SpanFacts


class SpanTree:
    """The spans of a trace, without those that came twice. `nodes` know their times, name and status alone."""

    def __init__(self, assembled: AssembledTrace) -> None:
        self._raw: dict[str, Raw] = {}
        records = [self._outlined(raw, origin) for raw, origin in assembled.spans[:MAX_SPANS]]
        ordered = [Node(span=record, facts=NOTHING) for record in in_order(records)]
        self.roots: Sequence[Node] = grow(ordered)
        self.left_out = max(0, len(assembled.spans) - MAX_SPANS)
        self.nodes = {node.id: node for root in self.roots for node in root.below()}
        """By span id, each before those under it."""
        self._below: dict[str, int] = defaultdict(int)
        for node in reversed(self.nodes.values()):
            if node.parent is not None:
                self._below[node.parent.id] += 1 + self._below[node.id]
        self._logs = _by_span(assembled.logs)

    def below(self, node: Node) -> int:
        """Count the spans under a node, at any depth."""
        return self._below[node.id]

    def read(self, node: Node) -> ReadSpan:
        """Decode a span, and read it by the dialects that recognise it."""
        raw, origin = self._raw[node.id]
        record = span_record(Span.FromString(raw), resource_of(origin.resource), origin.scope)
        facts, _ = read_span(record, self._logs.get(node.id, ()))
        return ReadSpan(record, facts or NOTHING)

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
    found: defaultdict[str, list[LogRecord]] = defaultdict(list)
    for record in _decoded(logs):
        if record.span_id is not None:
            found[record.span_id].append(record)
    return found


def _decoded(logs: Sequence[Raw]) -> Iterator[LogRecord]:
    for raw, origin in logs:
        yield log_record(LogMessage.FromString(raw), resource_of(origin.resource), origin.scope)
