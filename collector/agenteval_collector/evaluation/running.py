"""Which sessions have a trace that is still running; read when somebody asks, not while spans arrive."""

from collections.abc import Callable, Sequence

from agenteval_collector.pipeline import AssembledTrace
from otel_agenteval.model import Trace

MAX_TRACES = 500
"""Open traces looked at, the newest ones: an answer must not take long because much is going on."""


class RunningSessions:
    """Called for the ids; safe from any thread. A trace is read again only after something of it has arrived."""

    def __init__(
        self, open_traces: Callable[[int], Sequence[AssembledTrace]], read: Callable[[AssembledTrace], Trace]
    ) -> None:
        self._open_traces = open_traces
        self._read = read
        self._known: dict[tuple[str, int, int], str] = {}

    def __call__(self) -> set[str]:
        known = self._known
        running: dict[tuple[str, int, int], str] = {}
        for trace in self._open_traces(MAX_TRACES):
            state = (trace.trace_id, len(trace.spans), len(trace.logs))
            running[state] = known[state] if state in known else self._read(trace).session_id or trace.trace_id
        self._known = running
        return set(running.values())
