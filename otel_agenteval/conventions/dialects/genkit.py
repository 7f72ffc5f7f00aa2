"""Genkit's own spans (https://genkit.dev/docs/observability/), as its SDKs for JavaScript, Go and Python write them.

A flow, or an agent, is a run. `generate` is a span of the framework around a model call and what follows from it: it
is the run if nothing is around it. `genkit:name` of a model begins with the name of its plugin.
"""

from collections.abc import Sequence

from otel_agenteval.conventions.dialect import AttributeKeys, KindAttribute, SpanFacts, SpanRole
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.conventions.table_dialect import FactKeys, TableDialect

_ROLES = {
    "flow": SpanRole.WORKFLOW,
    "agent": SpanRole.AGENT,
    "model": SpanRole.MODEL,
    "tool": SpanRole.TOOL,
    "tool.v2": SpanRole.TOOL,
    "retriever": SpanRole.RETRIEVAL,
    "prompt": None,
    "executable-prompt": None,
}
_SUBTYPE = KindAttribute("genkit:metadata:subtype", _ROLES, agents=("genkit:name",))
_TYPE = KindAttribute("genkit:type", {"util": SpanRole.CHAIN})
_NAME, _INPUT, _OUTPUT = "genkit:name", "genkit:input", "genkit:output"


class Genkit(TableDialect):
    """Spans with `genkit:type`."""

    name = "genkit"
    rank = 150
    content_switch = "do not set disableLoggingInputAndOutput"
    kinds = (_SUBTYPE, _TYPE)
    keys = AttributeKeys(
        kinds=(_SUBTYPE,),
        tools=(_NAME,),
        arguments=(_INPUT,),
        results=(_OUTPUT,),
        models=(_NAME,),
        messages=(_INPUT,),
        replies=(_OUTPUT,),
        sessions=("genkit:sessionId", "genkit:metadata:sessionId"),
    )
    facts = FactKeys(inputs=(_INPUT,), outputs=(_OUTPUT,), tools=(_NAME,), models=(_NAME,))

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        facts = super().read(span, logs)
        if facts.model is not None:
            facts.model = facts.model.partition("/")[2] or facts.model
        return facts
