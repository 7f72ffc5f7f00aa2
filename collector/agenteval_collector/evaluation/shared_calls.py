"""Know a tool call again that two traces record: one that asked for it, and one that executed it.

Tools that run in a pool of threads lose their context, so their spans are traces of their own. By the id of the call
each is the call that a model asked for in another trace of the session. A span that names no session is known by its
service, its tool and its time as well: some servers give ids again.
"""

from dataclasses import dataclass
from typing import Final

from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import ToolCall, Trace

MOST_CALLS: Final = 20_000
"""Calls that are remembered, the last ones of all sessions."""
SLACK: Final = 5_000_000_000
"""Nanoseconds by which a call may begin before the trace that asked for it, or after its end: clocks differ."""


@dataclass(frozen=True, slots=True)
class _SeenCall:
    """A call as a trace has it. `begins` and `ends` are those of its execution, else of the trace that asked for it."""

    trace_id: str
    is_executed: bool
    begins: int
    ends: int

    def is_same(self, other: "_SeenCall") -> bool:
        """Return whether the other trace has the other half of the call."""
        return self.trace_id != other.trace_id and self.is_executed is not other.is_executed

    def fits(self, other: "_SeenCall") -> bool:
        """Return whether the one call was executed while the trace that asked for the other one lasted."""
        asked, executed = (other, self) if self.is_executed else (self, other)
        return asked.begins - SLACK <= executed.begins <= asked.ends + SLACK


class SharedCalls:
    """Remembers the calls of the traces that were scored last. Belongs to one thread."""

    def __init__(self) -> None:
        self._calls: LruMap[tuple[str, str], _SeenCall] = LruMap(MOST_CALLS)
        self._of_services: LruMap[tuple[str | None, str, str], _SeenCall] = LruMap(MOST_CALLS)
        """Those that traces without a session may share, by service, tool and id."""

    def elsewhere(self, trace: Trace, session_id: str) -> frozenset[str]:
        """Return the ids of the calls that are executed here and were asked for in another trace, or the other way
        round: they count there. Two executions with one id are two calls, as some servers give ids again.
        """
        return frozenset(
            call.call_id
            for call in trace.tool_calls
            if call.call_id is not None and self._is_elsewhere(trace, call, call.call_id, session_id)
        )

    def _is_elsewhere(self, trace: Trace, call: ToolCall, call_id: str, session_id: str) -> bool:
        is_executed = call.span_id is not None
        begins = call.started_at if is_executed and call.started_at is not None else trace.started_at
        ends = call.ended_at if is_executed and call.ended_at is not None else trace.ended_at
        here = _SeenCall(trace.trace_id, is_executed, begins, ends)
        known = self._calls.get((session_id, call_id))
        if known is None:
            self._calls.put((session_id, call_id), here)
        if known is not None and known.is_same(here):
            return True
        # Traces of a service share a call if the one executed it alone, and the other asked for it and did not.
        return (not is_executed or not trace.has_turns) and self._is_of_service(trace, call.name, call_id, here)

    def _is_of_service(self, trace: Trace, tool: str, call_id: str, here: _SeenCall) -> bool:
        key = trace.service, tool, call_id
        known = self._of_services.get(key)
        if known is not None and known.is_same(here) and known.fits(here):
            return True
        if known is None or known.trace_id != here.trace_id:
            self._of_services.put(key, here)
        return False
