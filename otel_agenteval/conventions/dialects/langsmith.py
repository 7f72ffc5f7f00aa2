"""LangSmith's exporter to OpenTelemetry (https://docs.langchain.com/langsmith/trace-with-opentelemetry): the GenAI
conventions, with what a step was given and gave back as LangChain's JSON in two attributes."""

from otel_agenteval.conventions.dialect import AttributeKeys, KindAttribute, SpanRole
from otel_agenteval.conventions.table_dialect import FactKeys, TableDialect

_ROLES = {
    "llm": SpanRole.MODEL,
    "tool": SpanRole.TOOL,
    "chain": SpanRole.CHAIN,
    "agent": SpanRole.AGENT,
    "retriever": SpanRole.RETRIEVAL,
}
_KIND = KindAttribute("langsmith.span.kind", _ROLES)
_INPUT, _OUTPUT = "gen_ai.prompt", "gen_ai.completion"


class LangSmith(TableDialect):
    """Spans with `langsmith.span.kind`."""

    name = "langsmith"
    rank = 62
    content_switch = "leave LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS unset in the agent"
    kinds = (_KIND,)
    keys = AttributeKeys(
        kinds=(_KIND,),
        agents=("langsmith.metadata.lc_agent_name",),
        arguments=(_INPUT,),
        results=(_OUTPUT,),
        messages=(_INPUT,),
        replies=(_OUTPUT,),
        sessions=("langsmith.metadata.session_id", "langsmith.metadata.thread_id", "langsmith.trace.session_id"),
        users=("langsmith.metadata.user_id",),
    )
    facts = FactKeys(inputs=(_INPUT,), outputs=(_OUTPUT,))
