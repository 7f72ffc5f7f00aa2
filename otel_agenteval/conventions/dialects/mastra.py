"""Mastra's exporter (https://mastra.ai/docs/observability): the GenAI conventions, and attributes of its own for what
runs of agents and workflows were given and gave back."""

from otel_agenteval.conventions.dialect import AttributeKeys, KindAttribute, SpanRole
from otel_agenteval.conventions.table_dialect import FactKeys, TableDialect

_ROLES = {
    "agent_run": SpanRole.AGENT,
    "workflow_run": SpanRole.WORKFLOW,
    "tool_call": SpanRole.TOOL,
    "mcp_tool_call": SpanRole.TOOL,
}
_KIND = KindAttribute("mastra.span.type", _ROLES)
_INPUTS = tuple(f"mastra.{kind}.input" for kind in _ROLES)
_OUTPUTS = tuple(f"mastra.{kind}.output" for kind in _ROLES)


class Mastra(TableDialect):
    """Spans with `mastra.span.type`."""

    name = "mastra"
    rank = 65
    content_switch = "leave hideInput and hideOutput of Mastra's tracingOptions unset"
    kinds = (_KIND,)
    keys = AttributeKeys(
        kinds=(_KIND,),
        arguments=_INPUTS[2:],
        results=_OUTPUTS[2:],
        sessions=("mastra.metadata.sessionId", "mastra.metadata.threadId"),
        users=("mastra.metadata.userId", "mastra.metadata.resourceId"),
    )
    facts = FactKeys(inputs=_INPUTS, outputs=_OUTPUTS)
