"""Google's Agent Development Kit: its own attributes `gcp.vertex.agent.*`. In versions 1.x only these hold content.

A model call has the request and the response of Gemini's API as JSON. Without content they are `{}` or missing.
"""

import re
from collections.abc import Mapping, Sequence

from otel_agenteval import semconv
from otel_agenteval.conventions import api_bodies
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import decode_remains, is_cut, object_in, objects_in
from otel_agenteval.conventions.dialect import AttributeKeys, Attributes, Dialect, SpanFacts, SpanRole
from otel_agenteval.conventions.dialects.otel_genai import read_model, read_tool
from otel_agenteval.conventions.messages import ASSISTANT, SYSTEM, Item
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.model import Json

_REQUEST, _RESPONSE = "gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response"
_ARGUMENTS, _RESULT = "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response"
_INVOCATION = "gcp.vertex.agent.invocation_id"
# Agent runs of the first versions have this name and no attributes.
_RUN = re.compile(r"agent_run \[(.+)\]", re.DOTALL)
_NO_CONTENT = "{}"
# The arguments of a span that repeats the responses of parallel calls together.
_NO_ARGUMENTS = "N/A"


def _agent_of(name: str, attributes: Attributes) -> str | None:
    return run[1] if (run := _RUN.fullmatch(name)) else None


def _is_agent_run(name: str, attributes: Attributes) -> bool:
    return _RUN.fullmatch(name) is not None


class GoogleADK(Dialect):
    """Spans with `gcp.vertex.agent` attributes, and spans whose name says that an agent runs."""

    name = "google_adk"
    rank = 80
    is_by_names = True
    content_switch = (
        "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY together with "
        "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental in the agent (tried with Google ADK 2.13; "
        "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true serves versions 1.x only)"
    )
    marks = frozenset((_REQUEST, _RESPONSE, _ARGUMENTS, _RESULT, _INVOCATION))
    keys = AttributeKeys(
        marks=((_ARGUMENTS, SpanRole.TOOL),),
        agent_of=(_agent_of,),
        is_agent_run=(_is_agent_run,),
        arguments=(_ARGUMENTS,),
        results=(_RESULT,),
        messages=(_REQUEST,),
        sessions=("gcp.vertex.agent.session_id",),
        # Its argument, which names the agent, is content.
        steering_tools=("transfer_to_agent",),
    )

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        return not span.attributes.keys().isdisjoint(self.marks) or _is_agent_run(span.name, span.attributes)

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        if _is_agent_run(span.name, attributes):
            return SpanFacts(role=SpanRole.AGENT)
        if attributes.get(_ARGUMENTS) == _NO_ARGUMENTS:
            return SpanFacts()
        if semconv.GEN_AI_TOOL_NAME in attributes:
            return _tool(attributes)
        return _model(attributes) if semconv.GEN_AI_REQUEST_MODEL in attributes else SpanFacts()


def _tool(attributes: Mapping[str, Json]) -> SpanFacts:
    result = attributes.get(_RESULT)
    facts = SpanFacts(role=SpanRole.TOOL, cut=is_cut(result))
    read_tool(facts, attributes, attributes.get(_ARGUMENTS), None if result == _NO_CONTENT else result)
    return facts


def _model(attributes: Mapping[str, Json]) -> SpanFacts:
    request, response = attributes.get(_REQUEST), attributes.get(_RESPONSE)
    facts = SpanFacts(role=SpanRole.MODEL, cut=is_cut(request) or is_cut(response))
    read_model(facts, attributes)
    if request not in (None, _NO_CONTENT):
        request_value = decode_remains(request)
        facts.input = Content(lambda: _sent(request_value), cut=is_cut(request))
        facts.tool_definitions = _declarations(request_value)
    facts.finish_reason = facts.finish_reason or api_bodies.finish_reason(response)
    if response not in (None, _NO_CONTENT):
        facts.output = Content(lambda: _received(decode_remains(response)), cut=is_cut(response))
    return facts


def _sent(request: Json) -> Sequence[Item]:
    if not isinstance(request, dict):
        return [request]
    instruction = _config(request).get("system_instruction")
    system: list[Item] = [{"role": SYSTEM, "content": instruction}] if isinstance(instruction, str) else []
    return [*system, *_list(request.get("contents"))]


def _received(response: Json) -> Sequence[Item]:
    if not isinstance(response, dict):
        return [response]
    content = response.get("content")
    # A response without content describes an error.
    return [{"role": ASSISTANT, **content}] if isinstance(content, dict) else []


def _declarations(request: Json) -> Json:
    """Return the tools of a request; None if it offers none."""
    tools = objects_in(_config(request).get("tools"))
    return [declaration for tool in tools for declaration in _list(tool.get("function_declarations"))] or None


def _config(request: Json) -> dict[str, Json]:
    return object_in(object_in(request).get("config"))


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
