"""Pydantic AI (https://ai.pydantic.dev/logfire/), beside the GenAI conventions that most of its spans speak.

A run's span holds the whole conversation. Runs and tools before version 1.1 have attributes of their own.
"""

from collections.abc import Mapping, Sequence

from otel_agenteval import semconv
from otel_agenteval.conventions import api_bodies
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import decode_structure, is_cut, known_text, objects_in
from otel_agenteval.conventions.dialect import AttributeKeys, Attributes, Dialect, SpanFacts, SpanRole
from otel_agenteval.conventions.dialects.otel_genai import read_tool
from otel_agenteval.conventions.messages import ASSISTANT, Item, read_message
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.model import Json

_AGENT_NAME = "agent_name"
_ALL_MESSAGES = "pydantic_ai.all_messages"
_ALL_EVENTS = "all_messages_events"
_NEW_MESSAGE_INDEX = "pydantic_ai.new_message_index"
_FINAL_RESULT = "final_result"
_PARAMETERS = "model_request_parameters"
# The text of an empty list, as the library writes it: then the parameters need no decoding.
_NO_ANSWER_TOOLS = '"output_tools":[]'
_ARGUMENTS, _RESULT = "tool_arguments", "tool_response"


def _is_agent_run(name: str, attributes: Attributes) -> bool:
    return _AGENT_NAME in attributes


class PydanticAI(Dialect):
    """Spans of agent runs, tools and model calls that have attributes of the library."""

    name = "pydantic_ai"
    rank = 100
    is_by_names = True
    content_switch = "take include_content=False out of the agent's InstrumentationSettings"
    keys = AttributeKeys(
        marks=((_ARGUMENTS, SpanRole.TOOL),),
        agents=(_AGENT_NAME,),
        is_agent_run=(_is_agent_run,),
        arguments=(_ARGUMENTS,),
        results=(_RESULT,),
    )

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        attributes = span.attributes
        return (
            _ALL_MESSAGES in attributes
            or _ALL_EVENTS in attributes
            or _PARAMETERS in attributes
            or (_AGENT_NAME in attributes and semconv.GEN_AI_AGENT_NAME in attributes)
            or ((_ARGUMENTS in attributes or _RESULT in attributes) and semconv.GEN_AI_TOOL_NAME in attributes)
        )

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        if semconv.GEN_AI_TOOL_NAME in attributes:
            return _read_tool(attributes)
        if _PARAMETERS in attributes:
            return _read_model(attributes)
        return _read_run(attributes)


def _read_run(attributes: Mapping[str, Json]) -> SpanFacts:
    facts = SpanFacts(role=SpanRole.AGENT)
    facts.instructions = attributes.get(semconv.GEN_AI_SYSTEM_INSTRUCTIONS)
    conversation = attributes.get(_ALL_MESSAGES, attributes.get(_ALL_EVENTS))
    facts.cut = is_cut(conversation)
    if conversation is not None:
        facts.input = Content(lambda: _asked(conversation, attributes.get(_NEW_MESSAGE_INDEX)), cut=facts.cut)
    facts.output = Content.answer_in(attributes.get(_FINAL_RESULT))
    return facts


def _read_model(attributes: Mapping[str, Json]) -> SpanFacts:
    """Read the tools that a model was offered, unless another attribute defines them, and those that take its
    answer."""
    facts = SpanFacts()
    recorded = attributes.get(_PARAMETERS)
    if semconv.GEN_AI_TOOL_DEFINITIONS in attributes and isinstance(recorded, str) and _NO_ANSWER_TOOLS in recorded:
        return facts
    parameters = decode_structure(recorded)
    if not isinstance(parameters, dict):
        return facts
    offered, answering = (objects_in(parameters.get(key)) for key in ("function_tools", "output_tools"))
    if semconv.GEN_AI_TOOL_DEFINITIONS not in attributes:
        facts.tool_definitions = [*offered]
    facts.answer_tools = tuple(name for tool in answering if (name := known_text(tool.get("name"))))
    return facts


def _read_tool(attributes: Mapping[str, Json]) -> SpanFacts:
    facts = SpanFacts(role=SpanRole.TOOL)
    read_tool(facts, attributes, attributes.get(_ARGUMENTS), attributes.get(_RESULT))
    return facts


def _asked(conversation: Json, new_message_index: Json) -> Sequence[Item]:
    """Decode the conversation up to the first reply of the run. Later user messages may be the library's own.

    Without the index of the run's first message, the messages of a user who spoke more than once cannot be told apart:
    then nothing is returned.
    """
    decoded = api_bodies.decoded(conversation)
    messages = [read_message(item) for item in decoded] if isinstance(decoded, list) else []
    present = [message for message in messages if message]
    begun = new_message_index if isinstance(new_message_index, int) else 0
    spoken = [message for message in present[begun:] if message.begins_turn]
    if begun == 0 and len(spoken) > 1:
        return []
    end = next((n for n in range(begun, len(present)) if present[n].role == ASSISTANT), len(present))
    return present[:end]
