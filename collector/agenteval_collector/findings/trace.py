"""The findings of one complete trace."""

from otel_agenteval.finding import Finding, FindingKind, Seen, Severity
from otel_agenteval.model import Trace


def findings_in(trace: Trace, *, session_id: str, is_first: bool, found_at: int) -> list[Finding]:
    """Everything that is observed in `trace` but its loops, in order of its turns. `is_first`: no trace of the session
    is known to have come before."""
    return [
        Finding(
            kind=FindingKind.TURN_FAILED,
            severity=Severity.ERROR,
            reason=f"the turn ended in an error: {turn.error}",
            trace_id=trace.trace_id,
            session_id=session_id,
            span_id=turn.span_id,
            turn=index,
            agent=turn.agent or trace.agent,
            service=trace.service,
            service_version=trace.service_version,
            found_at=found_at,
        )
        for index, turn in enumerate(trace.turns)
        if turn.error is not None
    ]


def seen_in(trace: Trace, *, is_first: bool) -> Seen:
    """What could be looked for in `trace`."""
    return Seen()
