"""Steps from single spans that have arrived. Facts that the rest of their trace may correct are left out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.conventions.spans import STATUS_ERROR, attributes
from otel_agenteval.detectors import Step, StepKind
from otel_agenteval.loops.light_reader import step_of
from otel_agenteval.model import AgentRun, Json

_REQUESTS: Final = ("tool", "function")


def live_step(span: Span, said: Mapping[str, Json], agent: str | None) -> Step | None:
    """Return the step that an arrived span stands for, without the facts that its trace may correct. None where it is
    no step."""
    step = step_of(
        span_id=span.span_id.hex(),
        name=span.name,
        attributes=said,
        events=[(event.name, attributes(event.attributes)) for event in span.events],
        failed=span.status.code == STATUS_ERROR,
        status_message=span.status.message,
        agent=agent,
        # The run's own span arrives after its steps: what stands below one span is of one run, whoever called it.
        run=AgentRun(span.parent_span_id.hex(), is_called=True),
        started_at=span.start_time_unix_nano,
        ended_at=span.end_time_unix_nano,
    )
    if step is None:
        return None
    if step.kind is StepKind.TOOL and step.result is None and step.error is None:
        return replace(step, arguments=None)
    if step.kind is StepKind.MODEL and _asks_for_tools(said):
        # Text beside a request for tools is no reply, whatever it repeats.
        return replace(step, result="")
    return step


def _asks_for_tools(said: Mapping[str, Json]) -> bool:
    """Return whether a model call ended in requests for tools, by its finish reasons or by the form of its reply."""
    for key, value in said.items():
        lowered = key.lower()
        if "finish" in lowered and any(word in str(value) for word in _REQUESTS):
            return True
        is_reply = "output" in lowered or "completion" in lowered
        if is_reply and ("tool_calls" in lowered or (isinstance(value, str) and _requests_in(value))):
            return True
    return False


def _requests_in(text: str) -> bool:
    return any(mark in text for mark in ('"tool_call"', '"tool_calls"', '"tool_use"', '"toolUse"', '"function_call"'))
