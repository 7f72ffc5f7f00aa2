"""Reading of assembled traces: serialized spans and log records become a `Trace` that can be stored and shown."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from agenteval_collector.evaluation.decoded import Decoded, DecodedTraces
from agenteval_collector.model.assembled_trace import AssembledTrace, ClosedBy, Death
from otel_agenteval.conventions.identity import BY_CONVENTION, SessionNaming
from otel_agenteval.conventions.input_cache import InputCache
from otel_agenteval.conventions.run_attributes import STAMPED, RunNaming
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.internal.text import storable
from otel_agenteval.model import Trace

T = TypeVar("T")

MAX_NAME = 1024
"""Characters of an id or a name. A longer one is cut and ends in a digest, so that it stays different from others."""

MAX_SPANS = 10_000
"""Spans of a trace that are read: the first that came, and the last `_LAST_SPANS`."""
_LAST_SPANS = 1000
"""Of a trace that is too long, the end is read, too: it shows how the trace ended, and the root mostly comes last."""

LATEST = 2**63 - 1
"""The last nanosecond that the store's signed integers hold, in the year 2262. OTLP allows twice as many."""


@dataclass(frozen=True, slots=True)
class TraceReader:
    """Reads an assembled trace with the dialects, when it is called. Never raises on content.

    `kept` holds the decoded telemetry of the traces that were read last, `input_cache` their messages. A reader with
    one of them belongs to one thread.
    """

    naming: SessionNaming = BY_CONVENTION
    run_naming: RunNaming = STAMPED
    kept: DecodedTraces | None = None
    input_cache: InputCache | None = None

    def __call__(self, assembled: AssembledTrace) -> Trace:
        decoded = Decoded() if self.kept is None else self.kept.take(assembled.trace_id)
        spans, logs = decoded.decode(_within_bounds(assembled.spans), assembled.logs)
        trace = read_trace(
            assembled.trace_id, spans, logs, self.naming, self.run_naming, decoded.read_span, self.input_cache
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
