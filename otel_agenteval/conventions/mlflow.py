"""MLflow Tracing 3 (https://mlflow.org/docs/latest/genai/tracing/): every attribute's value is JSON text.

Session and user are metadata of the trace in MLflow's own store and do not leave with the spans. Where MLflow writes
the GenAI conventions instead, its spans have none of these attributes.
"""

import re
from collections.abc import Mapping, Sequence

from otel_agenteval.conventions import api_bodies
from otel_agenteval.conventions.decoding import decode_arguments, decode_structure, decode_text, is_cut
from otel_agenteval.conventions.facts import Role, SpanFacts
from otel_agenteval.conventions.messages import Content
from otel_agenteval.conventions.span_values import LogRecord, SpanRecord
from otel_agenteval.conventions.spoken import answered, asked, langchain_message
from otel_agenteval.model import Json
from otel_agenteval.recorded import recorded

_TYPE = "mlflow.spanType"
_INPUTS, _OUTPUTS = "mlflow.spanInputs", "mlflow.spanOutputs"
_FUNCTION = "mlflow.spanFunctionName"
_TOOLS = "mlflow.chat.tools"
_USAGE = "mlflow.chat.tokenUsage"
_MODEL = "mlflow.llm.model"

_ROLES = {
    "AGENT": Role.AGENT,
    "CHAT_MODEL": Role.MODEL,
    "LLM": Role.MODEL,
    "TOOL": Role.TOOL,
    "CHAIN": Role.CHAIN,
    "WORKFLOW": Role.CHAIN,
    "UNKNOWN": Role.CHAIN,
    "RETRIEVER": Role.RETRIEVAL,
}
_NUMBERED = re.compile(r"(.+)_\d+")


class MLflow:
    """Spans with `mlflow.spanType`."""

    name = "mlflow"
    content_switch = "let the span_processors of mlflow.tracing.configure() pass inputs and outputs"

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        return _TYPE in span.attributes

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        facts = SpanFacts(role=_ROLES.get(_text(attributes, _TYPE) or ""))
        given, returned = attributes.get(_INPUTS), attributes.get(_OUTPUTS)
        facts.cut = is_cut(given) or is_cut(returned)
        if facts.role is Role.MODEL:
            facts.input = Content(api_bodies.request(given), cut=is_cut(given))
            facts.output = Content(api_bodies.response(returned), cut=is_cut(returned))
            reason = api_bodies.finish_reason(returned)
            facts.finish_reasons = (reason,) if reason else None
            facts.tool_definitions = attributes.get(_TOOLS) or api_bodies.tools(given)
            facts.model = _text(attributes, _MODEL)
            facts.usage = api_bodies.usage(attributes.get(_USAGE))
        elif facts.role is Role.TOOL:
            facts.tool = _tool(span)
            facts.arguments = decode_arguments(given)
            facts.result = decode_text(returned)
            message = langchain_message(facts.result)
            if message and message.responses:
                facts.result, facts.call_id = message.responses[0].result, message.responses[0].call_id
        elif facts.role in (Role.AGENT, Role.CHAIN):
            facts.input, facts.output = _asked(given), answered(returned)
        return facts


def _asked(given: Json) -> Content | None:
    """The user's words in the arguments of a function, which stand by name."""
    arguments = decode_structure(given)
    if isinstance(arguments, dict) and "messages" not in arguments:
        return asked({"args": [], "kwargs": arguments})
    return asked(given)


def _tool(span: SpanRecord) -> str | None:
    """The span's name; older versions number those of the same name within a trace."""
    numbered = _NUMBERED.fullmatch(span.name)
    if numbered and numbered[1] == _text(span.attributes, _FUNCTION):
        return numbered[1]
    return recorded(span.name)


def _text(attributes: Mapping[str, Json], key: str) -> str | None:
    return recorded(decode_text(attributes.get(key)))
