"""Read the facts of single spans, and remember them for a trace that is read again with new spans."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from otel_agenteval.conventions.agents import agent_of
from otel_agenteval.conventions.dialect import SpanFacts, SpanRole
from otel_agenteval.conventions.envelopes import take_off
from otel_agenteval.conventions.registry import speaking
from otel_agenteval.conventions.spans import LogRecord, SpanRecord

Reading: TypeAlias = tuple[SpanFacts | None, tuple[str, ...]]
"""The facts of a span and the names of the dialects that recognise it. None if no dialect does."""
ReadSpan: TypeAlias = Callable[[SpanRecord, Sequence[LogRecord]], Reading]


def read_span(span: SpanRecord, logs: Sequence[LogRecord] = ()) -> Reading:
    """Read a span. If it speaks several dialects, each fact is taken from the first that knows it."""
    facts: SpanFacts | None = None
    names: tuple[str, ...] = ()
    for dialect in speaking(span, logs):
        names += (dialect.name,)
        more = dialect.read(span, logs)
        if facts is None:
            facts = more
        else:
            facts.complete_with(more)
    if facts is not None:
        if facts.role is SpanRole.TOOL:
            take_off(facts)
        facts.agent = agent_of(span.name, span.attributes, span.scope)
    return facts, names


class ReadingCache:
    """Reads the spans of one trace like `read_span`. A span is read again only if it or one of its log records is a new
    object."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[SpanRecord, Sequence[LogRecord], Reading]] = {}
        self._read = self._before.copy()

    def begin_again(self) -> None:
        """Begin to read the trace again. Spans that the last reading did not ask for are forgotten."""
        self._before, self._read = self._read, {}

    def __call__(self, span: SpanRecord, logs: Sequence[LogRecord] = ()) -> Reading:
        """Return what `read_span` returns for the span and the log records that name it."""
        key = span.span_id or ""
        known_span, known_logs, reading = self._before.get(key, (None, (), None))
        if reading is None or known_span is not span or list(map(id, known_logs)) != list(map(id, logs)):
            reading = read_span(span, logs)
        elif (facts := reading[0]) is not None:
            for content in filter(None, (facts.input, facts.output)):
                content.begin_again()
        self._read[key] = span, logs, reading
        return reading
