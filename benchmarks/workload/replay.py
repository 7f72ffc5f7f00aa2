"""Conversations as spans from a tracer provider, like those of an instrumented agent."""

from opentelemetry.trace import Tracer, TracerProvider, set_span_in_context

import otel_agenteval
from benchmarks.workload.conversation import Conversation
from benchmarks.workload.plan import PlannedTrace, plan

SCOPE = "benchmarks.workload"


def replay(conversation: Conversation, provider: TracerProvider) -> list[int]:
    """Emit the conversation as a session and a run of its task, and report the run. Return the trace ids in order."""
    tracer = provider.get_tracer(SCOPE)
    with (
        otel_agenteval.session(conversation.session_id),
        otel_agenteval.run(task_id=conversation.task_id, run_id=conversation.run_id) as run,
    ):
        trace_ids = [emit(trace, tracer) for trace in plan(conversation)]
        run.report(success=conversation.success)
    return trace_ids


def emit(trace: PlannedTrace, tracer: Tracer) -> int:
    """Start and end the spans of one trace, and end the root last. Return the trace id."""
    root = tracer.start_span(trace.root.name, kind=trace.root.kind, attributes=trace.root.attributes)
    inside = set_span_in_context(root)
    for child in trace.children:
        tracer.start_span(child.name, inside, kind=child.kind, attributes=child.attributes).end()
    root.end()
    return root.get_span_context().trace_id
