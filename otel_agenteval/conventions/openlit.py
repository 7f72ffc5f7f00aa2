"""OpenLIT (https://docs.openlit.io): the GenAI conventions, and attributes of its own on spans of model calls.

There `gen_ai.tool.name` names what the model asked for, all tools in one text, as the messages do one by one. Spans of
decorated functions (`function.args`) are steps of the application: nothing says which of them is a turn or a tool.
"""

from collections.abc import Sequence

from otel_agenteval.conventions.decoding import recorded
from otel_agenteval.conventions.facts import SpanFacts
from otel_agenteval.conventions.records import LogRecord, SpanRecord

_REASONING = "gen_ai.content.reasoning"
# In the conventions this is a metric; as an attribute, nobody else has it.
_TOKEN_USAGE = "gen_ai.client.token.usage"
_FUNCTION_ARGUMENTS = "function.args"


class OpenLIT:
    """Spans with OpenLIT's count of tokens, reasoning, or arguments of a decorated function."""

    name = "openlit"

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        attributes = span.attributes
        return _TOKEN_USAGE in attributes or _REASONING in attributes or _FUNCTION_ARGUMENTS in attributes

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        return SpanFacts(reasoning=recorded(span.attributes.get(_REASONING)))
