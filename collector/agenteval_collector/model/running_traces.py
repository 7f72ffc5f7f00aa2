"""Spans and traces that are not complete."""

from collections.abc import Sequence
from dataclasses import dataclass

from otel_agenteval.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanStart:
    """A span that a process reports as started. None: not known at the start. `started_at` is in nanoseconds since the
    Unix epoch."""

    trace_id: str
    span_id: str
    name: str
    session_id: str | None
    agent: str | None
    started_at: int


@dataclass(frozen=True, slots=True)
class UnendedSpan:
    """A span that has started and not ended, as it is shown. `started_at` is in nanoseconds since the Unix epoch."""

    span_id: str
    name: str
    started_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsReport:
    """A process's report of its open spans. An empty one says that the process is alive.

    `all_open`: these are all open spans; any other span that it reported before has ended.
    """

    process_id: str
    service: str | None
    starts: Sequence[SpanStart]
    findings: Sequence[Finding]
    all_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTrace:
    """A trace that is not complete. `stopped` says why it will not go on; None while it may."""

    trace_id: str
    session_id: str
    user_id: str | None
    agent: str | None
    service: str | None
    started_at: int
    stopped: str | None = None
