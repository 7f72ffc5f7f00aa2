"""Keep the spans that processes have begun and not ended, and notice the processes that are gone.

Processes report their open spans (`live=True`). The state is in memory only, because processes report it again and
again.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.assembled_trace import Death
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.logged_requests import Arrival
from agenteval_collector.model.running_traces import RunningTrace, SpanStart, StartsReport, UnendedSpan
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.times import rfc3339
from otel_agenteval.finding import Finding
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.internal.text import cut
from otel_agenteval.model import Trace
from otel_agenteval.semconv import AGENTEVAL_SPAN_COUNT

MAX_SPANS: Final = 65_536
"""Open spans that are kept. Beyond that, the spans of the trace that began first are forgotten."""
MAX_PROCESSES: Final = 4096
"""Processes that are remembered. The process that was silent for longest is forgotten first."""
MAX_SHOWN: Final = 100
"""Open spans of a trace that are shown. They are the oldest."""
MAX_NAMED: Final = 3
"""Open spans that a reason names. They are the newest, as these are the innermost."""
MAX_NAME: Final = 100
"""Characters of a span's name in a reason."""
MAX_TRACES: Final = 500
"""Running traces that are listed. They are the newest."""
GONE_AFTER: Final = 30.0
"""Seconds after which a silent process counts as gone. While spans are open, it reports every 5 s."""
FORGOTTEN_AFTER: Final = 3600.0
"""Seconds after which the open spans of a silent process are forgotten."""


@dataclass(slots=True)
class _Process:
    service: str | None = None
    heard_at: float = -math.inf
    heard_on: int = 0
    # Trace ids of the process's open spans, by span id.
    spans: dict[str, str] = field(default_factory=dict)


class _ReportedSpan(NamedTuple):
    process_id: str
    start: SpanStart


@dataclass(slots=True)
class _ReportedTrace:
    spans: dict[str, _ReportedSpan] = field(default_factory=dict)
    # The time at which the trace's death was told, and whether a revision with it is stored.
    told_at: float = -math.inf
    closed: bool = False


class OpenSpans:
    """Knows open spans by the processes' reports and by the spans that arrive. Thread-safe.

    Open spans that are forgotten for want of room are counted as dropped.
    """

    def __init__(self, clock: Clock, telemetry: Telemetry) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._processes: LruMap[str, _Process] = LruMap(MAX_PROCESSES)
        self._traces: OrderedDict[str, _ReportedTrace] = OrderedDict()
        self._count = 0
        # The ids of ended spans are kept, because a span may arrive before the report of its start.
        self._ended: LruMap[bytes, bool] = LruMap(MAX_SPANS)
        self._lock = threading.RLock()

    def take_starts(self, report: StartsReport) -> list[Finding]:
        """Note the spans that a process has open. Return the findings that it reports on spans that have not ended."""
        with self._lock:
            process = self._hear(report.process_id)
            process.service = report.service or process.service
            for start in report.starts:
                if self._ended.get(bytes.fromhex(start.span_id)):
                    continue
                spans = self._traces.setdefault(start.trace_id, _ReportedTrace()).spans
                span = spans.get(start.span_id)
                if span is None:
                    self._count += 1
                elif span.process_id != report.process_id:
                    continue  # The span is open in the process that reported it first.
                spans[start.span_id] = _ReportedSpan(report.process_id, start)
                process.spans[start.span_id] = start.trace_id
            if report.all_open:
                for span_id in process.spans.keys() - {start.span_id for start in report.starts}:
                    self._close(process.spans[span_id], span_id)
            while self._count > MAX_SPANS:
                oldest, trace = next(iter(self._traces.items()))
                self._telemetry.count(Counted.DROPPED, len(trace.spans), "open_spans")
                for span_id in list(trace.spans):
                    self._close(oldest, span_id)
            return [self._found(finding, report) for finding in report.findings]

    def begun(self, trace_id: str) -> Trace | None:
        """Return a trace of which only span starts are known. Return None if there are none."""
        with self._lock:
            if not self._spans(trace_id):
                return None
            running = self._running(trace_id)
        return Trace(
            trace_id=trace_id,
            session_id=running.session_id,
            service=running.service,
            agents=() if running.agent is None else (running.agent,),
            started_at=running.started_at,
            ended_at=running.started_at,
        )

    def take_ended(self, arrivals: Iterable[Arrival]) -> None:
        """Note that these spans have ended, and that their processes have lived until then."""
        with self._lock:
            for span, origin in arrivals:
                if origin.process is None or not span.end_time_unix_nano:
                    continue
                self._hear(origin.process)
                self._end(span, origin.process)

    def of_trace(self, trace_id: str) -> list[UnendedSpan]:
        """Return the open spans of a trace, ordered by start. If there are many, return the first."""
        with self._lock:
            starts = [span.start for span in self._spans(trace_id)[:MAX_SHOWN]]
        return [UnendedSpan(start.span_id, start.name, start.started_at) for start in starts]

    def goes_on(self, trace_id: str) -> bool:
        """Return True if a span of the trace is open in a process that lives, or whose death was not told yet."""
        with self._lock:
            return bool(self._spans(trace_id)) and not self._is_told(trace_id)

    def stopped(self, trace_id: str) -> str | None:
        """Return why a trace will not go on: no process with one of its open spans was heard of lately.

        Return None if the trace may go on.
        """
        with self._lock:
            spans = self._spans(trace_id)
            if not spans or not all(self._is_gone(span.process_id) for span in spans):
                return None
            heard = _second(self._heard_on(spans))
        innermost = (span.start for span in reversed(spans[-MAX_NAMED:]))
        named = [f"{cut(start.name, MAX_NAME)} (since {_second(start.started_at)})" for start in innermost]
        others = [f"{len(spans) - MAX_NAMED} more"] if len(spans) > MAX_NAMED else []
        return (
            f"the agent died in the middle: nothing was heard of its process after {heard}, when there were open: "
            + ", ".join([*named, *others])
        )

    def death(self, trace_id: str) -> Death | None:
        """Return what was known of a trace whose processes died.

        Return None if a process lives, or no span is open.
        """
        with self._lock:
            reason = self.stopped(trace_id)
            if reason is None:
                return None
            spans = self._spans(trace_id)
            running = self._running(trace_id)
            return Death(
                reason=reason,
                session_id=next((span.start.session_id for span in spans if span.start.session_id), None),
                agent=running.agent,
                service=running.service,
                started_at=running.started_at,
                heard_at=self._heard_on(spans),
                open_spans=self.of_trace(trace_id),
            )

    def take_died(self) -> list[str]:
        """Return the traces that have died since the last call and must be closed. This tells their death."""
        with self._lock:
            alive = {process_id for process_id, _ in self._processes.items() if not self._is_gone(process_id)}
            silent = [
                trace_id
                for trace_id, trace in self._traces.items()
                if not any(span.process_id in alive for span in trace.spans.values())
            ]
            trace_ids = [trace_id for trace_id in silent if self._spans(trace_id) and not self._is_told(trace_id)]
            for trace_id in trace_ids:
                self._traces[trace_id].told_at = self._clock.monotonic()
                self._traces[trace_id].closed = False
            return trace_ids

    def take_scored(self, trace_id: str) -> None:
        """Note that a revision of the trace is stored. If its death was told, the trace no longer runs."""
        with self._lock:
            if self._is_told(trace_id):
                self._traces[trace_id].closed = True

    def running(self) -> list[RunningTrace]:
        """Return the newest traces with open spans that were not closed as dead."""
        with self._lock:
            newest = list(self._traces)[-MAX_TRACES:]
            return [
                self._running(trace_id)
                for trace_id in newest
                if self._spans(trace_id) and not (self._traces[trace_id].closed and self._is_told(trace_id))
            ]

    def processes_in(self, session_id: str) -> frozenset[str]:
        """Return the processes with open spans in the session, or in the trace with this id."""
        with self._lock:
            return frozenset(
                span.process_id
                for trace_id, trace in self._traces.items()
                if trace_id == session_id or any(span.start.session_id == session_id for span in trace.spans.values())
                for span in trace.spans.values()
            )

    def processes_of(self, trace_id: str) -> frozenset[str]:
        """Return the processes with open spans in a trace."""
        with self._lock:
            trace = self._traces.get(trace_id)
            return frozenset() if trace is None else frozenset(span.process_id for span in trace.spans.values())

    def _found(self, finding: Finding, report: StartsReport) -> Finding:
        trace = self._traces.get(finding.trace_id)
        open_span = trace.spans.get(finding.span_id or "") if trace is not None else None
        agent = finding.agent or (open_span.start.agent if open_span is not None else None)
        return replace(finding, agent=agent, service=report.service, found_at=self._clock.now())

    def _running(self, trace_id: str) -> RunningTrace:
        spans = self._spans(trace_id)
        starts = [span.start for span in spans]
        process = self._processes.peek(spans[0].process_id)
        return RunningTrace(
            trace_id=trace_id,
            session_id=next((start.session_id for start in starts if start.session_id), trace_id),
            user_id=None,
            agent=next((start.agent for start in starts if start.agent), None),
            service=process.service if process is not None else None,
            started_at=starts[0].started_at,
            stopped=self.stopped(trace_id),
        )

    def _heard_on(self, spans: Sequence[_ReportedSpan]) -> int:
        """Return when one of the processes was last heard of, in ns since the Unix epoch.

        Return 0 if all of them are forgotten.
        """
        processes = (self._processes.peek(span.process_id) for span in spans)
        return max((process.heard_on for process in processes if process is not None), default=0)

    def _spans(self, trace_id: str) -> list[_ReportedSpan]:
        """Return the open spans of a trace, ordered by start.

        The spans of processes that have been gone for long are forgotten first.
        """
        trace = self._traces.get(trace_id)
        if trace is None:
            return []
        for span_id in [key for key, span in trace.spans.items() if self._silence(span.process_id) > FORGOTTEN_AFTER]:
            self._close(trace_id, span_id)
        return sorted(trace.spans.values(), key=lambda span: span.start.started_at)

    def _end(self, span: Span, process_id: str) -> None:
        trace_id, span_id = span.trace_id.hex(), span.span_id.hex()
        self._ended.put(span.span_id, True)
        self._close(trace_id, span_id)
        trace = self._traces.get(trace_id)
        if trace is not None and any(pair.key == AGENTEVAL_SPAN_COUNT for pair in span.attributes):
            # The processor marks the span that closes the trace in its process.
            for other in [key for key, span in trace.spans.items() if span.process_id == process_id]:
                self._close(trace_id, other)

    def _close(self, trace_id: str, span_id: str) -> None:
        trace = self._traces.get(trace_id)
        open_span = trace.spans.pop(span_id, None) if trace is not None else None
        if trace is None or open_span is None:
            return
        self._count -= 1
        if not trace.spans:
            del self._traces[trace_id]
        if (process := self._processes.peek(open_span.process_id)) is not None:
            process.spans.pop(span_id, None)

    def _hear(self, process_id: str) -> _Process:
        process = self._processes.get_or_make(process_id, _Process)
        process.heard_at, process.heard_on = self._clock.monotonic(), self._clock.now()
        return process

    def _is_told(self, trace_id: str) -> bool:
        """Return True if the trace's death was told and none of its processes was heard of since."""
        trace = self._traces.get(trace_id)
        if trace is None:
            return False
        processes = (self._processes.peek(span.process_id) for span in trace.spans.values())
        heard_at = max((process.heard_at for process in processes if process is not None), default=-math.inf)
        return trace.told_at > heard_at

    def _is_gone(self, process_id: str) -> bool:
        return self._silence(process_id) > GONE_AFTER

    def _silence(self, process_id: str) -> float:
        """Return the seconds since the process was heard of. A forgotten process has been silent for ever."""
        process = self._processes.peek(process_id)
        return math.inf if process is None else self._clock.monotonic() - process.heard_at


def _second(nanoseconds: int) -> str:
    moment = rfc3339(nanoseconds)
    return "an unknown time" if moment is None else moment[:19] + "Z"
