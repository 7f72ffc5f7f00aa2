"""Haystack's own spans (https://docs.haystack.deepset.ai/docs/tracing), versions 2 and 3.

Version 3 has a span for each step of an agent and for each call in it. Before, the components of an agent had spans
like those of any pipeline, and their class tells what they are.
"""

from otel_agenteval.conventions.dialect import AttributeKeys, SpanRole
from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.table_dialect import FactKeys, TableDialect

_CLASS = "haystack.component.type"
_COMPONENT = "haystack.component.run"
_TOOL = "haystack.tool.name"
_LLM, _CALL = "haystack.agent.step.llm", "haystack.agent.step.tool"
_MODELS = ("Generator",)
_SPAN_NAMES = {
    "haystack.pipeline.run": SpanRole.WORKFLOW,
    "haystack.async_pipeline.run": SpanRole.WORKFLOW,
    "haystack.agent.run": SpanRole.AGENT,
    _LLM: SpanRole.MODEL,
    _CALL: SpanRole.TOOL,
    _COMPONENT: None,
}


class Haystack(TableDialect):
    """Spans that Haystack names."""

    name = "haystack"
    rank = 160
    content_switch = "set HAYSTACK_CONTENT_TRACING_ENABLED=true in the agent"
    span_names = _SPAN_NAMES
    keys = AttributeKeys(
        tools=(_TOOL,),
        arguments=(f"{_CALL}.input",),
        results=(f"{_CALL}.output",),
        messages=(f"{_LLM}.input", "haystack.component.input"),
        replies=(f"{_LLM}.output", "haystack.component.output"),
    )
    facts = FactKeys(
        inputs=(
            *("haystack.agent.input", f"{_LLM}.input", f"{_CALL}.input"),
            *("haystack.component.input", "haystack.pipeline.input_data"),
        ),
        outputs=(
            *("haystack.agent.output", f"{_LLM}.output", f"{_CALL}.output"),
            *("haystack.component.output", "haystack.pipeline.output_data"),
        ),
        tools=(_TOOL,),
        errors=("haystack.tool.error",),
    )

    def _role(self, span: SpanRecord) -> SpanRole | None:
        of_class = span.attributes.get(_CLASS)
        if span.name == _COMPONENT and isinstance(of_class, str) and of_class.endswith(_MODELS):
            return SpanRole.MODEL
        return super()._role(span)
