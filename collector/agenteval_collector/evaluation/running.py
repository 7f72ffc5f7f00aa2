"""Traces that are still running. They are read when somebody asks, not while spans arrive."""

from collections.abc import Sequence
from dataclasses import replace

from agenteval_collector.evaluation.ports import OpenTraces, Reader, ReportedTraces
from agenteval_collector.model.running import OpenSpan, RunningTrace
from agenteval_collector.model.trace_view import TraceView, view_of
from otel_agenteval.model import Trace

MAX_TRACES = 500
"""Open traces that are looked at, the newest ones: an answer must not take long because much is going on."""


class Running:
    """Answers what runs, by the spans that have arrived and by those of which only starts were reported. Thread-safe.

    A trace is read again only after something of it has arrived.
    """

    def __init__(self, open_traces: OpenTraces, reported: ReportedTraces, read: Reader) -> None:
        self._open_traces = open_traces
        self._reported = reported
        self._read = read
        self._known: dict[tuple[str, int, int], RunningTrace] = {}

    def traces(self) -> list[RunningTrace]:
        """All running traces, or the newest where there are many."""
        reported = {each.trace_id: each for each in self._reported.running()}
        known = self._known
        running: dict[tuple[str, int, int], RunningTrace] = {}
        for assembled in self._open_traces.newest(MAX_TRACES):
            state = (assembled.trace_id, len(assembled.spans), len(assembled.logs))
            running[state] = known[state] if state in known else _running(self._read(assembled))
        self._known = running
        for each in running.values():
            reported[each.trace_id] = _joined(each, reported.get(each.trace_id))
        return list(reported.values())

    def trace(self, trace_id: str) -> TraceView | None:
        """A view of a trace that is not complete; None where none of this id is known to run."""
        open_trace = self._open_traces.peek(trace_id)
        begun = self._reported.begun(trace_id)
        if open_trace is None:
            return None if begun is None else view_of(begun, revision=0, complete=False)
        arrived = self._read(open_trace)
        return view_of(
            arrived if begun is None else completed(arrived, begun),
            revision=open_trace.revision,
            complete=False,
            death=open_trace.death,
            waits_for=open_trace.waits_for,
        )

    def open_spans(self, trace_id: str) -> tuple[Sequence[OpenSpan], str | None]:
        """The spans of a trace that have begun and not ended, and why they will not end; None where they may."""
        return self._reported.of_trace(trace_id), self._reported.stopped(trace_id)


def completed(arrived: Trace, begun: Trace) -> Trace:
    """Return the spans that have arrived of a trace, with the session and agent that only the reported starts name."""
    return replace(
        arrived,
        session_id=arrived.session_id or begun.session_id,
        service=arrived.service or begun.service,
        # The outermost agent ends last.
        agents=tuple(dict.fromkeys((*begun.agents, *arrived.agents))),
        started_at=min(arrived.started_at, begun.started_at),
    )


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
    """Return the trace of its spans, completed by the starts that its process has reported."""
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
