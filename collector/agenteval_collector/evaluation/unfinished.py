"""Runs whose root never came, and what is said of them.

An agent that is killed sends the spans that had ended, and never the one around them, which names the agent.
"""

from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.assembled_trace import AssembledTrace, ClosedBy
from otel_agenteval.finding import Finding, FindingKind
from otel_agenteval.model import Trace

_WAITED_IN_VAIN: Final = (ClosedBy.SILENCE, ClosedBy.MAX_AGE)


def is_unfinished(trace: Trace, assembled: AssembledTrace) -> bool:
    """Return whether a trace has turns, and its root was waited for in vain."""
    if assembled.closing is None or assembled.closing.by not in _WAITED_IN_VAIN:
        return False
    return bool(trace.turns) and all(Span.FromString(raw).parent_span_id for raw, _ in assembled.spans)


def unfinished_run(trace: Trace, why: str, session_id: str, found_at: int) -> Finding:
    """Return the finding that a run did not end. `why` is the reason that closed its trace."""
    turn = trace.turns[-1]
    steps = sorted(
        [(call.ended_at, call.span_id, f"the call of {call.model or 'a model'}") for call in turn.model_calls]
        + [(call.ended_at or 0, call.span_id, f"the call of {call.name}") for call in turn.tool_calls],
        key=lambda step: step[0],
    )
    last = steps[-1] if steps else None
    did = f"its last step was {last[2]}" if last else "no step of it was recorded"
    return Finding(
        kind=FindingKind.UNFINISHED,
        severity=FindingKind.UNFINISHED.severity,
        reason=f"the run did not end: {did}, and {why}",
        trace_id=trace.trace_id,
        session_id=session_id,
        span_id=last[1] if last else turn.span_id,
        turn=len(trace.turns) - 1,
        agent=trace.agent or turn.agent,
        service=trace.service,
        service_version=trace.service_version,
        environment=trace.environment,
        found_at=found_at,
    )
