"""CrewAI, whose instrumentations record a crew's tasks and result beside any dialect (OpenInference, OpenLLMetry).

The run of a crew is one turn, however many agents it has. Its question is the description of the first task. A crew
that is given inputs fills them into its descriptions: then the span's tasks are those of an earlier run, and the
description is read from the result.
"""

import re
from collections.abc import Sequence

from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import decode_structure, known_text, object_in, objects_in
from otel_agenteval.conventions.dialect import Dialect, SpanFacts, SpanRole
from otel_agenteval.conventions.messages import ASSISTANT, USER
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.model import Json

_TASKS = ("crew_tasks", "crewai.crew.tasks")
_RESULT = "crewai.crew.result"
_OPENINFERENCE_RESULT = "output.value"
_INPUTS = "crew_inputs"
_PLACEHOLDER = re.compile(r"\{\w+\}")


class CrewAI(Dialect):
    """Spans of a crew's run."""

    name = "crewai"
    rank = 10
    is_common = True
    content_switch = "switch content on in the instrumentation that records the crew"
    marks = frozenset(_TASKS)

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        facts = SpanFacts(role=SpanRole.WORKFLOW)
        recorded = object_in(decode_structure(attributes.get(_OPENINFERENCE_RESULT)))
        task = _description(recorded.get("tasks_output"))
        if task is None and not decode_structure(attributes.get(_INPUTS)):
            task = _description(next(attributes[key] for key in _TASKS if key in attributes))
        if task:
            facts.input = Content.text(task, USER)
        result = recorded.get("raw") if recorded else attributes.get(_RESULT)
        if answer := known_text(result):
            facts.output = Content.text(answer, ASSISTANT)
        return facts


def _description(recorded: Json) -> str | None:
    """Return the description of the first recorded task; None if inputs are not filled in yet."""
    tasks = objects_in(decode_structure(recorded))
    text = known_text(tasks[0].get("description")) if tasks else None
    return None if text and _PLACEHOLDER.search(text) else text
