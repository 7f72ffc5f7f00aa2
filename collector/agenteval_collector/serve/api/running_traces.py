"""Traces that are still running. They are read when somebody asks for them, not when spans arrive."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.evaluation.reading import TraceReader
from agenteval_collector.live.open_spans import OpenSpans
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.running_traces import RunningTrace, UnendedSpan
from agenteval_collector.model.trace_view import TraceView, view_of
from agenteval_collector.runtime.work import READ_WITHIN, SCORING, WorkAccount
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import Trace

_State: TypeAlias = tuple[str, int, int, int, int, bool, bool]
LOOKED_AT = 10_000
"""Spans, in all, of the traces that are kept as they were read. Those that were asked for last are kept."""
MAX_TRACES = 500
"""Newest open traces that are read for a list. The bound keeps an answer fast while many traces are open."""


@dataclass(slots=True)
class RunningTraceReader:
    """Says which traces run, from spans that have arrived and from reported starts of spans.

    Reads only what is new. Thread-safe.
    """

    open_traces: Assembler
    reported: OpenSpans
    reader: TraceReader
    work: WorkAccount | None = None
    known: dict[_State, RunningTrace] = field(init=False, default_factory=dict)
    looked_at: LruMap[str, tuple[_State, Trace]] = field(init=False, default_factory=lambda: LruMap(LOOKED_AT, _spans))
    looking: threading.Lock = field(init=False, default_factory=threading.Lock)

    def traces(self) -> list[RunningTrace]:
        """Return the running traces: of many open traces only the `MAX_TRACES` newest."""
        reported = {trace.trace_id: trace for trace in self.reported.running()}
        entry = self.known
        running: dict[_State, RunningTrace] = {}
        for assembled in self.open_traces.newest(MAX_TRACES):
            state = _state(assembled)
            running[state] = entry[state] if state in entry else _running(self._read(assembled))
        self.known = running
        for trace in running.values():
            reported[trace.trace_id] = _joined(trace, reported.get(trace.trace_id))
        return list(reported.values())

    def trace(self, trace_id: str) -> TraceView | None:
        """Return the view of a running trace. Return None if no running trace of this id is known."""
        open_trace = self.open_traces.peek(trace_id)
        begun = self.reported.begun(trace_id)
        if open_trace is None:
            return None if begun is None else view_of(begun, revision=0, complete=False)
        arrived = self._arrived(open_trace)
        return view_of(
            arrived if begun is None else completed(arrived, begun),
            revision=open_trace.revision,
            complete=False,
            death=open_trace.death,
            waits_for=open_trace.waits_for,
        )

    def _arrived(self, open_trace: AssembledTrace) -> Trace:
        """Return what has arrived of a trace. Reads it only if something came since the last call."""
        # A caller that waits for the trace asks many times while nothing comes.
        state = _state(open_trace)
        with self.looking:
            entry = self.looked_at.get(open_trace.trace_id)
        if entry is not None and entry[0] == state:
            return entry[1]
        arrived = self._read(open_trace)
        with self.looking:
            self.looked_at.put(open_trace.trace_id, (state, arrived))
        return arrived

    def _read(self, assembled: AssembledTrace) -> Trace:
        reserve = WorkAccount.reserve_nothing if self.work is None else self.work.reserve
        with reserve(SCORING * assembled.size, READ_WITHIN):
            return self.reader.read(assembled)

    def open_spans(self, trace_id: str) -> tuple[Sequence[UnendedSpan], str | None]:
        """Return the spans that have begun and not ended, and the reason why they will never end.

        The reason is None if they may still end.
        """
        return self.reported.of_trace(trace_id), self.reported.stopped(trace_id)


def completed(arrived: Trace, begun: Trace) -> Trace:
    """Return the trace `arrived`, made of the spans that have ended, with what only the reported starts in `begun` say.

    The reported starts may name a session and an agent that no span names yet.
    """
    return replace(
        arrived,
        session_id=arrived.session_id or begun.session_id,
        service=arrived.service or begun.service,
        # The outermost agent ends last: until then only the reported starts name it.
        agents=tuple(dict.fromkeys((*begun.agents, *arrived.agents))),
        started_at=min(arrived.started_at, begun.started_at),
    )


def _state(trace: AssembledTrace) -> _State:
    """Return values that change whenever something arrives of a trace, or is known to be lost."""
    arrived = trace.offsets[-1] if trace.offsets else -1, len(trace.spans), len(trace.logs)
    return trace.trace_id, *arrived, trace.missing, trace.death is None, trace.closing is None


def _spans(looked_at: tuple[_State, Trace]) -> int:
    return looked_at[1].span_count


def _running(trace: Trace) -> RunningTrace:
    return RunningTrace(
        trace_id=trace.trace_id,
        session_id=trace.session_id or trace.trace_id,
        user_id=trace.user_id,
        agent=trace.agent,
        service=trace.service,
        started_at=trace.started_at,
    )


def _joined(arrived: RunningTrace, reported: RunningTrace | None) -> RunningTrace:
    """Return the trace with what only the reported starts of its process say."""
    if reported is None:
        return arrived
    return replace(
        arrived,
        session_id=arrived.session_id if arrived.session_id != arrived.trace_id else reported.session_id,
        agent=reported.agent or arrived.agent,
        service=arrived.service or reported.service,
        started_at=min(arrived.started_at, reported.started_at),
        stopped=reported.stopped,
    )
