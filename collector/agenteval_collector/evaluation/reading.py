"""Reading of assembled traces: serialized spans and log records become a `Trace` that can be stored and shown.

The decoded telemetry of large traces is kept, so that a later revision decodes and reads only what is new. What each
reading said is remembered as well: the outcomes of a revision that says nothing new need not be made again.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, Final, TypeVar

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.assembled_trace import AssembledTrace, ClosedBy, Closing, Death
from agenteval_collector.model.logged_requests import Origin, resource_of
from agenteval_collector.model.sessions import StoredPlace
from otel_agenteval.conventions.identity import BY_CONVENTION, SessionNaming
from otel_agenteval.conventions.input_cache import EXPANSION, InputCache
from otel_agenteval.conventions.own_readings import NOTHING_OF_ITS_OWN, OwnReadings
from otel_agenteval.conventions.run_attributes import STAMPED, RunNaming
from otel_agenteval.conventions.span_reader import ReadingCache
from otel_agenteval.conventions.spans import LogRecord, SpanRecord, log_record, span_record
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.internal.text import storable
from otel_agenteval.model import GroundTruth, RunIdentity, Trace

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_NAME = 1024
"""Characters of an id or a name. A longer one is cut and ends in a digest, so that it stays different from others."""

MAX_SPANS = 10_000
"""Spans of a trace that are read: the first that came, and the last `_LAST_SPANS`."""
_LAST_SPANS = 1000
"""Of a trace that is too long, the end is read, too: it shows how the trace ended, and the root mostly comes last."""

LATEST = 2**63 - 1
"""The last nanosecond that the store's signed integers hold, in the year 2262. OTLP allows twice as many."""


MIN_ITEMS: Final = 50
"""The least number of spans and log records of a trace that is kept. Reading a smaller trace again takes a moment."""

CAPACITY = 10_000
"""Traces whose readings are remembered: those that were read last."""

Serialized = tuple[bytes, Origin]

# A span that adds nothing to the turns raises the number of spans alone.
_WHAT_A_TRACE_SAYS: Final = attrgetter(
    *(field.name for field in fields(Trace) if field.name not in ("span_count", "unknown_spans"))
)


@dataclass(frozen=True, slots=True)
class TraceReader:
    """Reads assembled traces with the dialects. Never raises on content.

    `own` says which facts stand under names that are the user's. `truth` returns the ground truth of a run; it counts
    where a trace has none itself. `kept` holds the decoded telemetry of the traces
    that were read last, `input_cache` their messages. A reader with one of them belongs to one thread.
    """

    naming: SessionNaming = BY_CONVENTION
    run_naming: RunNaming = STAMPED
    truth: Callable[[RunIdentity | None], GroundTruth] | None = None
    kept: "DecodedTraces | None" = None
    input_cache: InputCache | None = None
    own: OwnReadings = NOTHING_OF_ITS_OWN

    def read(self, assembled: AssembledTrace) -> Trace:
        """Read a trace."""
        trace = self._read(assembled)
        if self.truth is None:
            return trace
        tools, answer = self.truth(trace.run)
        tools = trace.expected_tools if trace.expected_tools is not None else tools
        answer = trace.expected_answer if trace.expected_answer is not None else answer
        if tools is None and answer is None:
            return trace
        return replace(trace, expected_tools=tools, expected_answer=answer)

    def read_apart(self, assembled: AssembledTrace) -> Trace:
        """Read a trace, take nothing from other readings and leave nothing for them."""
        return replace(self, kept=None, input_cache=None).read(assembled)

    def _read(self, assembled: AssembledTrace) -> Trace:
        decoded = Decoded() if self.kept is None else self.kept.take(assembled.trace_id)
        spans, logs = decoded.decode(_within_bounds(assembled.spans), assembled.logs, self.own)
        trace = read_trace(
            assembled.trace_id,
            spans,
            logs,
            self.naming,
            self.run_naming,
            decoded.read_span,
            self.input_cache,
            assembled.received_at,
        )
        trace = _storable(trace)
        if self.kept is not None:
            self.kept.keep(assembled.trace_id, decoded)
        if assembled.death is not None:
            trace = _storable(_completed(trace, assembled.death))
        if len(assembled.spans) > MAX_SPANS:
            return replace(trace, span_count=len(assembled.spans), partial=True)
        # The trace lacks spans that its sender handed over, but that were refused or lost on the way.
        cut = assembled.missing or (assembled.closing is not None and assembled.closing.partial)
        return replace(trace, partial=True) if cut else trace


def why_partial(trace: Trace, assembled: AssembledTrace) -> str | None:
    """Return one word for why the trace is partial. Return None for a trace that is not partial.

    `death`: its agent died. `lost`: spans that their sender handed over did not come. `cut`: its
    content or its spans were beyond a limit. Otherwise a value of `ClosedBy`, which closed the trace too early.
    """
    if not trace.partial:
        return None
    if assembled.death is not None:
        return ClosedBy.DEATH
    if assembled.missing:
        return "lost"
    closing = assembled.closing
    return closing.by if closing is not None and closing.partial else "cut"


def _within_bounds(spans: Sequence[T]) -> Sequence[T]:
    # One trace that never ends must not delay the scores of all others.
    if len(spans) <= MAX_SPANS:
        return spans
    return [*spans[: MAX_SPANS - _LAST_SPANS], *spans[-_LAST_SPANS:]]


def _completed(trace: Trace, death: Death) -> Trace:
    """Return the trace of an agent that died, completed from the reported starts of spans that will never come."""
    return replace(
        trace,
        session_id=trace.session_id or death.session_id,
        service=trace.service or death.service,
        agents=tuple(dict.fromkeys((*([death.agent] if death.agent else []), *trace.agents))),
        partial=True,
        started_at=min(trace.started_at or death.started_at, death.started_at),
        ended_at=max(trace.ended_at, death.heard_at, death.started_at),
    )


def _storable(trace: Trace) -> Trace:
    """Return the trace with times, ids and names that fit into the store and into UTF-8."""
    run = trace.run and replace(
        trace.run,
        task_id=_name(trace.run.task_id) or "",
        run_id=_name(trace.run.run_id) or "",
        condition=_name(trace.run.condition) or "",
    )
    stored: dict[str, Any] = {
        "session_id": _name(trace.session_id),
        "user_id": _name(trace.user_id),
        "service": _name(trace.service),
        "service_version": _name(trace.service_version),
        "environment": _name(trace.environment),
        "service_versions": tuple(_name(version) or "" for version in trace.service_versions),
        "agents": tuple(_name(agent) or "" for agent in trace.agents),
        "run": run,
        "started_at": min(trace.started_at, LATEST),
        "ended_at": min(trace.ended_at, LATEST),
    }
    # Most traces need no change, and a copy takes longer than a comparison.
    return trace if all(getattr(trace, name) == value for name, value in stored.items()) else replace(trace, **stored)


def _name(text: str | None) -> str | None:
    if text is None:
        return None
    clean = storable(text)
    if len(clean) <= MAX_NAME:
        return clean
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{clean[: MAX_NAME - len(digest) - 1]}#{digest}"


class Decoded:
    """The decoded spans and log records of one trace."""

    def __init__(self) -> None:
        self._spans: dict[Serialized, SpanRecord] = {}
        self._logs: dict[Serialized, LogRecord] = {}
        self.read_span = ReadingCache()
        self.size = 0
        """The estimated bytes of memory that the decoded trace takes."""
        self.items = 0
        """The number of spans and log records of the trace."""

    def decode(
        self, spans: Iterable[Serialized], logs: Iterable[Serialized], own: OwnReadings = NOTHING_OF_ITS_OWN
    ) -> tuple[list[SpanRecord], list[LogRecord]]:
        """Return the decoded spans and log records of a trace, with the facts that `own` finds on spans.

        A span or log record that was decoded by an earlier call is returned as the same object.
        """
        self.read_span.begin_again()
        read = _span if own is NOTHING_OF_ITS_OWN else lambda item: own.translate(_span(item))
        self._spans = _decoded(spans, self._spans, read)
        self._logs = _decoded(logs, self._logs, _log)
        self.size = EXPANSION * sum(len(raw) for held in (self._spans, self._logs) for raw, _ in held)
        self.items = len(self._spans) + len(self._logs)
        return list(self._spans.values()), list(self._logs.values())


class DecodedTraces:
    """Keeps the decoded telemetry of the large traces that were read last. Not thread-safe.

    A trace is large from `min_items` spans and log records on. All kept traces together take at most `max_bytes`.
    """

    def __init__(self, max_bytes: int, *, min_items: int = MIN_ITEMS) -> None:
        self._min_items = min_items
        self._kept: LruMap[str, Decoded] = LruMap(max_bytes, lambda decoded: decoded.size)

    @property
    def size(self) -> int:
        """The estimated bytes of memory that all kept traces take."""
        return self._kept.weight

    def take(self, trace_id: str) -> Decoded:
        """Remove and return the decoded telemetry of a trace, empty for an unknown trace. `keep` gives it back."""
        return self._kept.pop(trace_id) or Decoded()

    def __contains__(self, trace_id: str) -> bool:
        return trace_id in self._kept

    def keep(self, trace_id: str, decoded: Decoded) -> None:
        """Keep the decoded telemetry of a trace if it is large. The traces that were read longest ago make room."""
        if decoded.items >= self._min_items:
            self._kept.put(trace_id, decoded)


def _decoded(items: Iterable[K], earlier: Mapping[K, V], decode: Callable[[K], V]) -> dict[K, V]:
    return {item: decode(item) if (value := earlier.get(item)) is None else value for item in items}


def _span(item: Serialized) -> SpanRecord:
    raw, origin = item
    return span_record(Span.FromString(raw), resource_of(origin.resource), origin.scope)


def _log(item: Serialized) -> LogRecord:
    raw, origin = item
    return log_record(LogMessage.FromString(raw), resource_of(origin.resource), origin.scope)


class LastReadings:
    """Remembers the traces that were read last: the last two readings of each. Not thread-safe.

    A reading of a large trace is remembered as a digest of what was read. Most traces have one revision, so of a small
    one only its extent is remembered. It is read again if another revision comes.
    """

    def __init__(self) -> None:
        self._read: LruMap[str, Sequence[tuple[int, _Extent | int]]] = LruMap(CAPACITY)

    def same(
        self,
        assembled: AssembledTrace,
        trace: Trace,
        before: StoredPlace | None,
        read: Callable[[AssembledTrace], Trace],
    ) -> bool:
        """Return whether `trace`, read from a newer revision, is known to say the same as the stored revision `before`.

        Return False if `before` waits for the judge, because the judge has to answer for the newest revision. The
        reading is remembered in any case. `read` reads a trace and remembers nothing.
        """
        is_small = len(assembled.spans) + len(assembled.logs) < MIN_ITEMS
        reading = _Extent.of(assembled) if before is None and is_small else _digest(assembled, trace)
        # The same revision comes again if it could not be stored at first.
        earlier = [known for known in self._read.get(assembled.trace_id) or () if known[0] != assembled.revision]
        self._read.put(assembled.trace_id, (*earlier[-1:], (assembled.revision, reading)))
        if before is None or before.pending:
            return False
        known = dict(earlier).get(before.revision)
        return reading == (known.digest(assembled, read) if isinstance(known, _Extent) else known)

    def forget(self, trace_id: str) -> None:
        """Forget the reading of a trace."""
        self._read.pop(trace_id)


@checked_dataclass(frozen=True, slots=True)
class _Extent:
    """The part of a trace that was read: its first spans and log records, and what else the reading rested on."""

    spans: int
    logs: int
    content: int
    missing: int
    received_at: int
    death: Death | None
    closing: Closing | None

    @classmethod
    def of(cls, assembled: AssembledTrace) -> "_Extent":
        """Return the extent of all that is there now."""
        return cls(
            spans=len(assembled.spans),
            logs=len(assembled.logs),
            content=_content(assembled.spans, assembled.logs),
            missing=assembled.missing,
            received_at=assembled.received_at,
            death=assembled.death,
            closing=assembled.closing,
        )

    def digest(self, later: AssembledTrace, read: Callable[[AssembledTrace], Trace]) -> int | None:
        """Return the digest of what was read. Return None if a `later` revision does not begin with it."""
        spans, logs = later.spans[: self.spans], later.logs[: self.logs]
        if _content(spans, logs) != self.content:
            return None
        part = replace(
            later,
            spans=spans,
            logs=logs,
            missing=self.missing,
            received_at=self.received_at,
            death=self.death,
            closing=self.closing,
        )
        return _digest(part, read(part))


def _content(spans: Sequence[Serialized], logs: Sequence[Serialized]) -> int:
    # The hash of bytes is computed once, and was needed to decode them.
    return hash((*(raw for raw, _ in spans), *(raw for raw, _ in logs)))


def _digest(assembled: AssembledTrace, trace: Trace) -> int:
    """Return a digest of a reading. Readings that differ only in the number of their spans have the same digest."""
    death = None if assembled.death is None else assembled.death.reason
    return hash((repr(_WHAT_A_TRACE_SAYS(trace)), death))
