"""What a user's settings say of attributes and spans that no dialect knows: which fact each of them is.

A fact under a name of the user's is read like that of the GenAI conventions. If a span has the convention's own
attribute, that one counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from otel_agenteval import semconv
from otel_agenteval.conventions.spans import SpanRecord

FACTS: Final[Mapping[str, str]] = {
    "session": semconv.GEN_AI_CONVERSATION_ID,
    "user": semconv.USER_ID,
    "agent": semconv.GEN_AI_AGENT_NAME,
    "input": semconv.GEN_AI_INPUT_MESSAGES,
    "output": semconv.GEN_AI_OUTPUT_MESSAGES,
    "instructions": semconv.GEN_AI_SYSTEM_INSTRUCTIONS,
    "tool": semconv.GEN_AI_TOOL_NAME,
    "call_id": semconv.GEN_AI_TOOL_CALL_ID,
    "arguments": semconv.GEN_AI_TOOL_CALL_ARGUMENTS,
    "result": semconv.GEN_AI_TOOL_CALL_RESULT,
    "model": semconv.GEN_AI_REQUEST_MODEL,
    "input_tokens": semconv.GEN_AI_USAGE_INPUT_TOKENS,
    "output_tokens": semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
}
"""The facts that an attribute can hold, and the attribute of the conventions for each."""

PARTS: Final[Mapping[str, str]] = {
    "agent": "invoke_agent",
    "workflow": "invoke_workflow",
    "model": "chat",
    "tool": "execute_tool",
}
"""The parts that a span can play, and the operation of the conventions for each."""

_OF_TOOLS: Final = {"input": "arguments", "output": "result"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnReadings:
    """`attributes` has the fact for each attribute, `spans` the part for each name of a span.

    A name of a span that ends in `*` stands for all that begin so.
    """

    attributes: Mapping[str, str] = field(default_factory=dict)
    spans: Mapping[str, str] = field(default_factory=dict)

    def translate(self, span: SpanRecord) -> SpanRecord:
        """Return the span with the attributes of the conventions that the settings say it has; most often itself."""
        if not self.attributes and not self.spans:
            return span
        reading = self._part(span.name)
        values: dict[str, Any] = {} if reading is None else {semconv.GEN_AI_OPERATION_NAME: PARTS[reading]}
        for key, fact in self.attributes.items():
            if key in span.attributes:
                held = _OF_TOOLS.get(fact, fact) if reading == "tool" else fact
                values.setdefault(FACTS[held], span.attributes[key])
        return replace(span, attributes={**values, **span.attributes}) if values else span

    def _part(self, name: str) -> str | None:
        if name in self.spans:
            return self.spans[name]
        begun = (span for key, span in self.spans.items() if key.endswith("*") and name.startswith(key[:-1]))
        return next(begun, None)


NOTHING_OF_ITS_OWN: Final = OwnReadings()
"""Says nothing of any span."""
