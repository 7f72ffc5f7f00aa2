"""Traces that are still running. They are read when somebody asks, not while spans arrive."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agenteval_collector.evaluation.ports import OpenTraces, Reader, ReportedTraces
from agenteval_collector.model.running import OpenSpan, RunningTrace
from agenteval_collector.model.trace_view import TraceView, view_of
from otel_agenteval.model import Trace

MAX_TRACES = 500
"""Open traces that are looked at, the newest ones: an answer must not take long because much is going on."""


@dataclass(slots=True)
class Running:
    """Answers what runs, by spans that have arrived and reported starts. Reads only what is new. Thread-safe."""

    open_traces: OpenTraces
    reported: ReportedTraces
    read: Reader
    known: dict[tuple[str, int, int], RunningTrace] = field(init=False, default_factory=dict)

    def traces(self) -> list[RunningTrace]:
        """Return all running traces, or the newest where there are many."""
        reported = {each.trace_id: each for each in self.reported.running()}
        known = self.known
        running: dict[tuple[str, int, int], RunningTrace] = {}
        for assembled in self.open_traces.newest(MAX_TRACES):
            state = (assembled.trace_id, len(assembled.spans), len(assembled.logs))
            running[state] = known[state] if state in known else _running(self.read(assembled))
        self.known = running
        for each in running.values():
            reported[each.trace_id] = _joined(each, reported.get(each.trace_id))
        return list(reported.values())

    def trace(self, trace_id: str) -> TraceView | None:
        """Return the view of a trace that is not complete; None where none of this id is known to run."""
        open_trace = self.open_traces.peek(trace_id)
        begun = self.reported.begun(trace_id)
        if open_trace is None:
            return None if begun is None else view_of(begun, revision=0, complete=False)
        arrived = self.read(open_trace)
        return view_of(
            arrived if begun is None else completed(arrived, begun),
            revision=open_trace.revision,
            complete=False,
            death=open_trace.death,
            waits_for=open_trace.waits_for,
        )

    def open_spans(self, trace_id: str) -> tuple[Sequence[OpenSpan], str | None]:
        """Return the spans that have begun and not ended, and why they will not end; None where they may."""
        return self.reported.of_trace(trace_id), self.reported.stopped(trace_id)


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
