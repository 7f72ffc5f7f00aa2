"""Read the facts of single spans, and keep them, so that reading a trace again reads only what is new."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from otel_agenteval.conventions.agents import agent_of
from otel_agenteval.conventions.facts import SpanFacts
from otel_agenteval.conventions.registry import DIALECTS
from otel_agenteval.conventions.spans import LogRecord, SpanRecord

Reading: TypeAlias = tuple[SpanFacts | None, tuple[str, ...]]
"""The facts of a span, and the names of the dialects that recognised it."""
ReadSpan: TypeAlias = Callable[[SpanRecord, Sequence[LogRecord]], Reading]


def read_span(span: SpanRecord, logs: Sequence[LogRecord] = ()) -> tuple[SpanFacts | None, tuple[str, ...]]:
    """Read the facts of a span and the names of the dialects that recognised it; None where none did.

    Where a span speaks several dialects, each fact is taken from the first that knows it.
    """
    facts: SpanFacts | None = None
    names: tuple[str, ...] = ()
    for dialect in DIALECTS:
        if dialect.recognises(span, logs):
            names += (dialect.name,)
            more = dialect.read(span, logs)
            if facts is None:
                facts = more
            else:
                facts.complete_with(more)
    if facts is not None:
        facts.agent = agent_of(span.name, span.attributes, span.scope)
    return facts, names


@dataclass(frozen=True, slots=True)
class _Read:
    span: SpanRecord
    logs: Sequence[LogRecord]
    reading: Reading


class SpanReadings:
    """Reads the spans of one trace as `read_span` does, each once while it and its log records are the same objects.

    Nobody changes facts once they are read, but their contents decode themselves when they are looked at.
    """

    def __init__(self) -> None:
        self._before: dict[str, _Read] = {}
        self._read: dict[str, _Read] = {}

    def begin_again(self) -> None:
        """The trace is read again: what was read before that is not forgotten, but all that is older."""
        self._before, self._read = self._read, {}

    def __call__(self, span: SpanRecord, logs: Sequence[LogRecord] = ()) -> Reading:
        """The reading of the span and of the log records that name it."""
        key = span.span_id or ""
        known = self._before.get(key)
        if known is None or known.span is not span or not _are_same(known.logs, logs):
            known = _Read(span, logs, read_span(span, logs))
        elif (facts := known.reading[0]) is not None:
            for content in (facts.input, facts.output):
                if content is not None:
                    content.begin_again()
        self._read[key] = known
        return known.reading


def _are_same(known: Sequence[LogRecord], logs: Sequence[LogRecord]) -> bool:
    return len(known) == len(logs) and all(a is b for a, b in zip(known, logs, strict=True))
