"""Which traces are still running; read when somebody asks, not while spans arrive."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from agenteval_collector.model.assembled import AssembledTrace
from agenteval_collector.model.running import RunningTrace
from otel_agenteval.model import Trace

MAX_TRACES = 500
"""Open traces looked at, the newest ones: an answer must not take long because much is going on."""


class RunningTraces:
    """Called for the traces of which spans have arrived, and those of which only starts were reported; safe from any
    thread. A trace is read again only after something of it has arrived."""

    def __init__(
        self,
        open_traces: Callable[[int], Sequence[AssembledTrace]],
        read: Callable[[AssembledTrace], Trace],
        reported: Callable[[], Sequence[RunningTrace]],
    ) -> None:
        self._open_traces = open_traces
        self._read = read
        self._reported = reported
        self._known: dict[tuple[str, int, int], RunningTrace] = {}

    def __call__(self) -> list[RunningTrace]:
        reported = {each.trace_id: each for each in self._reported()}
        known = self._known
        running: dict[tuple[str, int, int], RunningTrace] = {}
        for assembled in self._open_traces(MAX_TRACES):
            state = (assembled.trace_id, len(assembled.spans), len(assembled.logs))
            running[state] = known[state] if state in known else _running(self._read(assembled))
        self._known = running
        for each in running.values():
            reported[each.trace_id] = _joined(each, reported.get(each.trace_id))
        return list(reported.values())


def completed(arrived: Trace, begun: Trace) -> Trace:
    """What has arrived of a trace, with whose it is as far as only the spans say that are open."""
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
    """What its spans say, completed by what its process has reported."""
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
