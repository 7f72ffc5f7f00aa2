"""Functions by which an agent asks for the newest alarm on its session."""

from otel_agenteval.loops.guard import AgentLoopDetected
from otel_agenteval.loops.verdicts import current_ids
from otel_agenteval.processor import live_processors
from otel_agenteval.verdict import Verdict


def current_verdict() -> Verdict | None:
    """Return the newest alarming verdict on the current session, or on the current span's trace; else None.

    Never waits. A verdict is remembered for ten minutes, so its `trace_id` may be that of an earlier trace.
    """
    session_id, trace_id = current_ids()
    alarms = [alarm for processor in live_processors() if (alarm := processor.alarm(session_id, trace_id))]
    newest = max(alarms, key=lambda alarm: alarm.at, default=None)
    return newest.verdict if newest is not None else None


def raise_if_looping() -> None:
    """Raise `AgentLoopDetected` if a guard would stop the current trace, whether or not `stop_on_loop` was called.

    Call it if a framework's spans say only at their end that they are calls. Like the guard, it first looks for
    loops in the spans that have ended. Outside a span, it raises while a trace of the session that loops is open.
    """
    session_id, trace_id = current_ids()
    for processor in live_processors():
        processor.look()
        if (alarm := processor.stopping_alarm(session_id, trace_id)) is not None:
            raise AgentLoopDetected(alarm.verdict)
