"""OpenInference (semantic conventions 0.1, https://arize-ai.github.io/openinference/spec/).

Messages of model calls stand in indexed attributes. The question and the answer of an agent stand in `input.value` and
`output.value`, in shapes that differ between the instrumented libraries.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from otel_agenteval.conventions import api_bodies
from otel_agenteval.conventions.api_bodies import usage_in
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import (
    decode_arguments,
    decode_structure,
    is_cut,
    known_text,
    object_in,
    objects_in,
    unflatten,
)
from otel_agenteval.conventions.dialect import (
    AttributeKeys,
    Attributes,
    Dialect,
    IndexedMessages,
    KindAttribute,
    SpanFacts,
    SpanRole,
)
from otel_agenteval.conventions.dialects.otel_genai import texts_in
from otel_agenteval.conventions.framework_values import answered, asked, current_agent, read_reprs, read_result
from otel_agenteval.conventions.messages import ASSISTANT, TOOL, USER, ChatMessage, Item, read_message
from otel_agenteval.conventions.scopes import library_of
from otel_agenteval.conventions.spans import STATUS_ERROR, LogRecord, SpanRecord
from otel_agenteval.model import Json

_SPELLED = {
    "AGENT": SpanRole.AGENT,
    "CHAIN": SpanRole.CHAIN,
    "LLM": SpanRole.MODEL,
    "TOOL": SpanRole.TOOL,
    "RETRIEVER": SpanRole.RETRIEVAL,
}
# Some instrumentations write the kinds in lower case.
_ROLES = {spelling: role for kind, role in _SPELLED.items() for spelling in (kind, kind.lower())}
_INPUT, _OUTPUT = "input.value", "output.value"
_INPUT_MESSAGES, _OUTPUT_MESSAGES = "llm.input_messages", "llm.output_messages"
_FIRST_REPLY = "llm.output_messages.0.message.role"
_MODEL_NAME = "llm.model_name"
_FINISH_REASON = "llm.finish_reason"
# In the JSON itself: a text inside it would have escaped quotes.
_FAILED_RESULT = re.compile(r'"is_error"\s*:\s*true')
_PARAMETERS = "llm.invocation_parameters"
_PREVIOUS_RESPONSE = "previous_response_id"
_PROMPT_TOKENS, _COMPLETION_TOKENS = "llm.token_count.prompt", "llm.token_count.completion"
_TOOLS = "llm.tools"
_FIRST_TOOL = "llm.tools.0.tool.json_schema"
_TOOL_NAME = "tool.name"
_TOOL_CALL_ID = "tool_call.id"
_SMOLAGENTS_TOOLS = "smolagents.tools_names"
# The tool by which smolagents has its model answer.
_SMOLAGENTS_ANSWER = "final_answer"

# DSPy names the span of a tool after the method that ran it, and ends its loop with a tool of its own.
_CALLED = (".__call__", ".acall")
_DSPY_END = ("finish", "Completed.")
# Responses begin with their id, so the rest, which may be long, need not be decoded.
_RESPONSE_ID = re.compile(r'\{\s*"id"\s*:\s*"([^"\\]+)"')
# Steps of LangChain are no model calls, though they have messages: model calls have spans of their own.
_LANGCHAIN = "langchain"
# The instrumentation of openai-agents gives this name to the span of a hand-over.
_HANDOFF = "handoff to "
# AGENT spans of these scopes that name no agent are named after a workflow, or a function of Vercel's AI SDK.
_NAMES_NO_AGENTS = ("openai_agents", "ai")
_RUN_METHOD = re.compile(r"\.a?(?:run|invoke)\w*$")
# LangChain names the agent in the metadata of its spans. A graph of LangGraph that is none of LangChain's agents has
# the name of its root span, the only span outside of any step.
_METADATA = "metadata"
# BeeAI records what happens to a run, such as its error, as spans of the run's kind.
_BEEAI, _EVENT = "beeai", "metadata.path"
_LANGCHAIN_AGENT = re.compile(r'"lc_agent_name": ?("(?:[^"\\]|\\.)*")')
_GRAPH, _STEP = '"ls_integration": "langgraph"', '"langgraph_step"'
_UNNAMED_GRAPH = "LangGraph"
# LlamaIndex names the agent in the object that sets it up.
_SETS_UP_AGENT = ".setup_agent"


def _agent_in(name: str, scope: str) -> str | None:
    return None if library_of(scope) in _NAMES_NO_AGENTS else _RUN_METHOD.sub("", name)


_KIND = KindAttribute(
    "openinference.span.kind",
    _ROLES,
    # The last is that of Vercel's AI SDK, whose spans OpenInference's processor adds to.
    agents=("agent.name", "graph.node.name", "graph.node.id", "ai.telemetry.functionId"),
    agent_in=_agent_in,
)


def _langchain_agent(name: str, attributes: Attributes) -> str | None:
    metadata = attributes.get(_METADATA)
    if not isinstance(metadata, str):
        return None
    if match := _LANGCHAIN_AGENT.search(metadata):
        try:
            return known_text(json.loads(match[1]))
        except ValueError:
            return None
    is_root = _GRAPH in metadata and _STEP not in metadata
    return known_text(name) if is_root and name != _UNNAMED_GRAPH else None


def _llama_index_agent(name: str, attributes: Attributes) -> str | None:
    if not name.endswith(_SETS_UP_AGENT):
        return None
    return current_agent(attributes.get(_OUTPUT))


class OpenInference(Dialect):
    """Spans with `openinference.span.kind`."""

    name = "openinference"
    rank = 90
    content_switch = "unset OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and their like in the agent"
    marks = frozenset((_KIND.key,))
    keys = AttributeKeys(
        kinds=(_KIND,),
        agent_of=(_langchain_agent, _llama_index_agent),
        tools=(_TOOL_NAME,),
        tool_suffixes=_CALLED,
        steering_tools=(_SMOLAGENTS_ANSWER,),
        steering_prefixes=(_HANDOFF,),
        arguments=(_INPUT,),
        results=(_OUTPUT,),
        models=(_MODEL_NAME,),
        indexed_messages=(
            IndexedMessages(f"{_INPUT_MESSAGES}.", ".message.", ("content", "contents.0.message_content.text")),
        ),
        reply_texts=(f"{_OUTPUT_MESSAGES}.0.message.content",),
        replies=(_OUTPUT,),
        input_tokens=(_PROMPT_TOKENS,),
        output_tokens=(_COMPLETION_TOKENS,),
    )

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        library = library_of(span.scope)
        facts = SpanFacts(role=None if library == _BEEAI and _EVENT in attributes else _KIND.role(attributes))
        json_keys = (_INPUT, _OUTPUT, _FIRST_TOOL)
        facts.cut = any(is_cut(attributes.get(key)) for key in json_keys if _is_json(attributes, key))
        if facts.role is SpanRole.MODEL:
            _read_model(facts, span)
        elif facts.role is SpanRole.TOOL:
            _read_tool(facts, span)
        elif facts.role is SpanRole.CHAIN and library != _LANGCHAIN and _has(attributes, _INPUT_MESSAGES):
            _read_model(facts, span)
            facts.output = facts.output or _structured(attributes.get(_OUTPUT))
            facts.may_be_call = True
        elif facts.role in (SpanRole.AGENT, SpanRole.CHAIN):
            facts.input = _said(attributes, _INPUT)
            facts.output = _said(attributes, _OUTPUT)
            if facts.role is SpanRole.AGENT:
                facts.tool_names = texts_in(attributes.get(_SMOLAGENTS_TOOLS))
        return facts


def _has(attributes: Mapping[str, Json], prefix: str) -> bool:
    return any(key.startswith(prefix) for key in attributes)


def _read_model(facts: SpanFacts, span: SpanRecord) -> None:
    attributes = span.attributes
    # SDKs that drop the newest attributes beyond a limit may cut the history anywhere. Then nothing follows it.
    is_ended = span.dropped_attributes_count > 0 and _FIRST_REPLY not in attributes and _PROMPT_TOKENS not in attributes
    if _has(attributes, _INPUT_MESSAGES):
        facts.input = Content(lambda: _sent(attributes), cut=is_ended)
    else:
        facts.input = _said(attributes, _INPUT)
    if _has(attributes, _OUTPUT_MESSAGES):
        facts.output = Content(lambda: _reply(attributes))
    elif original := _raw_message(attributes.get(_OUTPUT)):
        facts.output = Content(lambda: [original])
    else:
        facts.output = _said(attributes, _OUTPUT)
    facts.model = known_text(attributes.get(_MODEL_NAME))
    raw = attributes.get(_OUTPUT)
    if isinstance(raw, str) and (response_id := _RESPONSE_ID.match(raw)):
        facts.response_id = response_id[1]
    facts.finish_reason = known_text(attributes.get(_FINISH_REASON)) or api_bodies.finish_reason(raw)
    parameters = attributes.get(_PARAMETERS)
    if isinstance(parameters, str) and _PREVIOUS_RESPONSE in parameters:
        facts.previous_response_id = known_text(object_in(decode_structure(parameters)).get(_PREVIOUS_RESPONSE))
    if isinstance(parameters, str) and '"system"' in parameters:  # Anthropic's API has instructions beside messages.
        facts.instructions = object_in(decode_structure(parameters)).get("system")
    schemas = [attributes[key] for key in attributes if key.startswith(_TOOLS) and key.endswith(".tool.json_schema")]
    if schemas:
        facts.tool_definitions = schemas
    facts.usage = usage_in(attributes, (_PROMPT_TOKENS,), (_COMPLETION_TOKENS,))
    says_nothing = facts.input is None and facts.output is None and facts.usage is None
    if says_nothing and span.status != STATUS_ERROR and known_text(attributes.get(_OUTPUT)):
        # LlamaIndex marks helpers around the call as model calls too. Their output is no reply.
        facts.role = None


def _read_tool(facts: SpanFacts, span: SpanRecord) -> None:
    attributes = span.attributes
    if _TOOL_NAME not in attributes and span.name.startswith(_HANDOFF):
        facts.role = None
        facts.hands_over_to = known_text(attributes.get(_OUTPUT)) or span.name.removeprefix(_HANDOFF)
        return
    facts.tool = known_text(attributes.get(_TOOL_NAME)) or known_text(_without_method(span.name))
    facts.arguments = decode_arguments(attributes.get(_INPUT))
    read_result(facts, attributes.get(_OUTPUT))
    facts.call_id = known_text(attributes.get(_TOOL_CALL_ID)) or facts.call_id
    if span.name.endswith(_CALLED) and (facts.tool, facts.result) == _DSPY_END:
        facts.role = None
        return


def _without_method(name: str) -> str:
    return next((name.removesuffix(suffix) for suffix in _CALLED if name.endswith(suffix)), name)


def _messages(attributes: Mapping[str, Json], prefix: str) -> list[Item]:
    """Return the messages in indexed attributes."""
    return [read_message(_plain(item)) or item for item in unflatten(attributes, prefix)]


def _sent(attributes: Mapping[str, Json]) -> list[Item]:
    """Return the messages that a model was sent. Only the raw request to Anthropic's API tells which results are
    errors."""
    raw = attributes.get(_INPUT)
    messages = _written(raw, "messages") or _messages(attributes, _INPUT_MESSAGES)
    if isinstance(raw, str) and _FAILED_RESULT.search(raw):
        responses = [response for message in Content.recorded_as(raw, USER).messages for response in message.responses]
        failed = {result.call_id for result in responses if result.failed} - {None}
        for message in messages:
            if isinstance(message, ChatMessage):
                message.responses = [
                    replace(response, failed=response.failed or response.call_id in failed)
                    for response in message.responses
                ]
    return messages


def _reply(attributes: Mapping[str, Json]) -> Sequence[Item]:
    """Decode a model's reply. Reasoning stands only in the raw response, or as one more text of the message."""
    raw = attributes.get(_OUTPUT)
    messages = _written(raw, "replies") or _messages(attributes, _OUTPUT_MESSAGES)
    reply = messages[0] if len(messages) == 1 else None
    if not isinstance(reply, ChatMessage) or not isinstance(raw, str):
        return messages
    says_nothing = not reply.texts and not reply.requests
    if len(reply.texts) > 1 or says_nothing or '"reasoning_content"' in raw:
        original = _raw_message(raw)
        if original and original.text in reply.texts:
            reply.reasoning += [text for text in reply.texts if text != original.text]
            reply.texts = original.texts
        if original:
            reply.is_empty = reply.is_empty or (says_nothing and original.is_empty and not original.requests)
            reply.reasoning += [text for text in original.reasoning if text not in reply.reasoning]
    return messages


def _written(raw: Json, name: str) -> list[Item]:
    """Return the messages in Haystack's raw value, if they are whole: the attributes have no tools' results and no
    ids of calls."""
    if not isinstance(raw, str) or "ChatMessage(_role=" not in raw:
        return []
    reprs = read_reprs(object_in(decode_structure(raw)).get(name)) or []
    return [read_message(text) or text for text in reprs]


def _raw_message(recorded: Json) -> ChatMessage | None:
    """Return the message in a raw response that has one; None for plain text, and for a response that was cut."""
    items = [] if is_cut(recorded) else api_bodies.response(recorded)
    return read_message(items[0]) if len(items) == 1 and not isinstance(items[0], ChatMessage) else None


def _plain(item: Json) -> Json:
    """Return the message at an index, without the names that the conventions put around each level."""
    fields = object_in(item)
    message = fields.get("message")
    if not isinstance(message, dict):
        return item
    plain = dict(message)
    if plain.get("role") == USER and "tool_call_id" in plain:  # Anthropic's API has results in the user's messages.
        plain["role"] = TOOL
    if name := message.get("function_call_name"):
        plain["tool_calls"] = [{"name": name, "arguments": message.get("function_call_arguments_json")}]
    results = fields.get("function")
    if isinstance(results, list) and "content" not in message:
        plain["content"] = [_function_result(result) for result in results]
    for source, wrapper, target in (
        ("contents", "message_content", "content"),
        ("tool_calls", "tool_call", "tool_calls"),
    ):
        wrapped = message.get(source)
        if isinstance(wrapped, list):
            plain[target] = [item.get(wrapper) for item in objects_in(wrapped)]
    return plain


def _function_result(recorded: Json) -> Json:
    """Return the message part for a function's result, which AutoGen records beside its message."""
    result = object_in(decode_structure(recorded))
    return {**result, "type": "tool_call_response"} if "content" in result else None


def _said(attributes: Mapping[str, Json], key: str) -> Content | None:
    """Return the user's question or the agent's answer under `key`; None if something else stands there."""
    value = attributes.get(key)
    if is_cut(value) and not _is_json(attributes, key):
        return Content.text(str(value), USER if key == _INPUT else ASSISTANT)
    return asked(value) if key == _INPUT else answered(value)


def _structured(value: Json) -> Content | None:
    """Return a model's answer in the structure that a program asked for: its only text, else the whole structure as
    text."""
    values = list(object_in(decode_structure(value)).values())
    text = known_text(values[0] if len(values) == 1 and isinstance(values[0], str) else value)
    return Content.text(text, ASSISTANT) if text else None


def _is_json(attributes: Mapping[str, Json], key: str) -> bool:
    return attributes.get(key.replace(".value", ".mime_type"), "application/json") == "application/json"
