"""Spring AI (https://docs.spring.io/spring-ai/reference/observability/), whose tools and conversations have attributes
of their own beside the GenAI conventions."""

from collections.abc import Sequence

from otel_agenteval.conventions.decoding import decode_arguments, decode_text, known_text
from otel_agenteval.conventions.dialect import AttributeKeys, Dialect, KindAttribute, SpanFacts, SpanRole
from otel_agenteval.conventions.spans import LogRecord, SpanRecord

_KIND = KindAttribute("spring.ai.kind", {"tool_call": SpanRole.TOOL})
_TOOL = "spring.ai.tool.definition.name"
_CALL_ID = "spring.ai.tool.call.id"
_ARGUMENTS, _RESULT = "spring.ai.tool.call.arguments", "spring.ai.tool.call.result"


class SpringAI(Dialect):
    """Spans with `spring.ai.kind`."""

    name = "spring_ai"
    rank = 60
    content_switch = (
        "set spring.ai.chat.observations.log-prompt, log-completion and spring.ai.tools.observations.include-content "
        "to true"
    )
    marks = frozenset((_KIND.key,))
    keys = AttributeKeys(
        kinds=(_KIND,),
        tools=(_TOOL,),
        arguments=(_ARGUMENTS,),
        results=(_RESULT,),
        sessions=("spring.ai.chat.client.conversation.id",),
    )

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        facts = SpanFacts(role=_KIND.role(attributes))
        if facts.role is SpanRole.TOOL:
            facts.tool = known_text(attributes.get(_TOOL))
            facts.call_id = known_text(attributes.get(_CALL_ID))
            facts.arguments = decode_arguments(attributes.get(_ARGUMENTS))
            facts.result = decode_text(attributes.get(_RESULT))
        return facts
