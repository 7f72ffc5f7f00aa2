"""Know a tool call again that two traces of a session record: one that asked for it, and one that executed it.

Tools that run in a pool of threads lose their context, so their spans are traces of their own. By the id of the call
each is the call that a model asked for in another trace.
"""

from typing import Final, NamedTuple

from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import Trace

MOST_CALLS: Final = 20_000
"""Calls that are remembered, the last ones of all sessions."""


class _SeenCall(NamedTuple):
    trace_id: str
    is_executed: bool


class SharedCalls:
    """Remembers the calls of the traces that were scored last. Belongs to one thread."""

    def __init__(self) -> None:
        self._calls: LruMap[tuple[str, str], _SeenCall] = LruMap(MOST_CALLS)

    def elsewhere(self, trace: Trace, session_id: str) -> frozenset[str]:
        """Return the ids of the calls that are executed here and were asked for in another trace of the session, or
        the other way round: they count there. Two executions with one id are two calls, as some servers give ids again.
        """
        calls = set()
        for call in trace.tool_calls:
            if call.call_id is None:
                continue
            here = _SeenCall(trace.trace_id, call.span_id is not None)
            call_of_session = self._calls.get((session_id, call.call_id))
            if call_of_session is None:
                self._calls.put((session_id, call.call_id), here)
            elif call_of_session.trace_id != here.trace_id and call_of_session.is_executed is not here.is_executed:
                calls.add(call.call_id)
        return frozenset(calls)
