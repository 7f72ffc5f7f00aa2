"""CrewAI, whose instrumentations record a crew's tasks and result beside any dialect (OpenInference, OpenLLMetry).

A crew at work is one turn, however many agents it has: it was asked what its first task describes.
"""

import re
from collections.abc import Sequence

from otel_agenteval.conventions.decoding import decode_structure
from otel_agenteval.conventions.facts import Role, SpanFacts
from otel_agenteval.conventions.messages import ASSISTANT, USER, Content
from otel_agenteval.conventions.span_values import LogRecord, SpanRecord
from otel_agenteval.model import Json
from otel_agenteval.recorded import recorded

_TASKS = ("crew_tasks", "crewai.crew.tasks")
_RESULT = "crewai.crew.result"
_OPENINFERENCE_RESULT = "output.value"
_PLACEHOLDER = re.compile(r"\{\w+\}")


class CrewAI:
    """Spans of a crew's run."""

    name = "crewai"
    content_switch = "switch content on in the instrumentation that records the crew"

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        return any(key in span.attributes for key in _TASKS)

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        facts = SpanFacts(role=Role.WORKFLOW)
        if task := _description(next(attributes[key] for key in _TASKS if key in attributes)):
            facts.input = Content.text(task, USER)
        output = decode_structure(attributes.get(_OPENINFERENCE_RESULT))
        result = output.get("raw") if isinstance(output, dict) else attributes.get(_RESULT)
        if answer := recorded(result):
            facts.output = Content.text(answer, ASSISTANT)
        return facts


def _description(recording: Json) -> str | None:
    """What the first of the recorded tasks describes; None where inputs were still to be filled in."""
    tasks = decode_structure(recording)
    first = tasks[0] if isinstance(tasks, list) and tasks else None
    text = recorded(first.get("description")) if isinstance(first, dict) else None
    return None if text and _PLACEHOLDER.search(text) else text
