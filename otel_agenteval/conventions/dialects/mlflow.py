"""MLflow Tracing 3 (https://mlflow.org/docs/latest/genai/tracing/): every attribute's value is JSON text."""

import re
from collections.abc import Mapping, Sequence

from otel_agenteval.conventions import api_bodies
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import decode_arguments, decode_structure, decode_text, is_cut, known_text
from otel_agenteval.conventions.dialect import AttributeKeys, Dialect, KindAttribute, SpanFacts, SpanRole
from otel_agenteval.conventions.framework_values import answered, asked, read_result
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.model import Json

_TYPE = "mlflow.spanType"
_INPUTS, _OUTPUTS = "mlflow.spanInputs", "mlflow.spanOutputs"
_FUNCTION = "mlflow.spanFunctionName"
_TOOLS = "mlflow.chat.tools"
_USAGE = "mlflow.chat.tokenUsage"
_MODEL = "mlflow.llm.model"
# Automatic tracing records the fields of the traced object. Tools and agents have their names there.
_NAME = "name"

_ROLES = {
    "AGENT": SpanRole.AGENT,
    "CHAT_MODEL": SpanRole.MODEL,
    "LLM": SpanRole.MODEL,
    "TOOL": SpanRole.TOOL,
    "CHAIN": SpanRole.CHAIN,
    "WORKFLOW": SpanRole.CHAIN,
    "UNKNOWN": SpanRole.CHAIN,
    "RETRIEVER": SpanRole.RETRIEVAL,
}
# Automatic tracing of a library names spans after methods, such as `Agent.run`. That is no name of an agent.
_METHOD = re.compile(r"\w+\.\w+")
# A tool of smolagents by which the model answers, by its class.
_STEERING_CLASSES = {"FinalAnswerTool": "final_answer"}
_NUMBERED = re.compile(r"(.+)_\d+")


def _agent_in(name: str, scope: str) -> str | None:
    return None if _METHOD.fullmatch(name) else name


_KIND = KindAttribute(_TYPE, {f'"{kind}"': role for kind, role in _ROLES.items()}, agent_in=_agent_in)


class MLflow(Dialect):
    """Spans with `mlflow.spanType`."""

    name = "mlflow"
    rank = 130
    content_switch = "let the span_processors of mlflow.tracing.configure() pass inputs and outputs"
    marks = frozenset((_TYPE,))
    keys = AttributeKeys(
        kinds=(_KIND,),
        arguments=(_INPUTS,),
        results=(_OUTPUTS,),
        messages=(_INPUTS,),
        replies=(_OUTPUTS,),
        usage=(_USAGE,),
        sessions=("mlflow.trace.session",),
        users=("mlflow.trace.user",),
    )

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        facts = SpanFacts(role=_KIND.role(attributes))
        inputs, returned = attributes.get(_INPUTS), attributes.get(_OUTPUTS)
        facts.cut = is_cut(inputs) or is_cut(returned)
        if facts.role is SpanRole.MODEL:
            api_bodies.read_call(facts, inputs, returned)
            facts.tool_definitions = attributes.get(_TOOLS) or api_bodies.tools(inputs)
            facts.model = _text(attributes, _MODEL)
            facts.usage = api_bodies.usage(attributes.get(_USAGE))
        elif facts.role is SpanRole.TOOL:
            facts.tool = _tool(span)
            facts.arguments = decode_arguments(inputs)
            read_result(facts, returned)
        elif facts.role in (SpanRole.AGENT, SpanRole.CHAIN):
            facts.input, facts.output = _asked(inputs), answered(returned)
        return facts


def _asked(value: Json) -> Content | None:
    """Return what the user asked, from a function's arguments, which MLflow records by parameter name."""
    arguments = decode_structure(value)
    if isinstance(arguments, dict) and "messages" not in arguments:
        return asked({"args": [], "kwargs": arguments})
    return asked(value)


def _tool(span: SpanRecord) -> str | None:
    """Return the name that the tool's object has, or the name of the span. Older versions put a number behind a name
    that a trace has twice."""
    if _METHOD.fullmatch(span.name) and (name := _text(span.attributes, _NAME)):
        return name
    if (run_by := span.name.partition(".")[0]) in _STEERING_CLASSES:
        return _STEERING_CLASSES[run_by]
    numbered = _NUMBERED.fullmatch(span.name)
    if numbered and numbered[1] == _text(span.attributes, _FUNCTION):
        return numbered[1]
    return known_text(span.name)


def _text(attributes: Mapping[str, Json], key: str) -> str | None:
    return known_text(decode_text(attributes.get(key)))
