"""LlamaIndex's own spans (package llama-index-observability-otel): one for each method, with events of what it did.

The messages of a model call, its reply and its tokens stand in two events, spread over attributes. The arguments of a
tool stand in the repr of the step that called it. Its result stands there too, but mostly cut: the next model call has
it whole.
"""

import re
from collections.abc import Sequence
from typing import Final

from otel_agenteval.conventions import api_bodies
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import decode_structure, first_text, is_cut, known_text, object_in
from otel_agenteval.conventions.dialect import AttributeKeys, Attributes, Dialect, SpanFacts, SpanRole
from otel_agenteval.conventions.framework_values import current_agent
from otel_agenteval.conventions.messages import ASSISTANT, USER, message_items
from otel_agenteval.conventions.python_repr import decode_repr
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.model import Json

_SCOPE: Final = "llamaindex.opentelemetry.tracer"
_STEP: Final = "llamaindex.step.input_summary"
_CALL: Final = "ToolCall("
_TOOLS: Final = (".call_tool", "Tool.acall", "Tool.call")
_RUN: Final = ".run"
_STARTS: Final = frozenset(("LLMChatStartEvent", "LLMCompletionStartEvent"))
_ENDS: Final = frozenset(("LLMChatEndEvent", "LLMCompletionEndEvent"))
_REPLY, _RAW = "response.message.", "response.raw."
_USAGES: Final = (f"{_RAW}usage.", f"{_RAW}usage_metadata.", "response.additional_kwargs.")


def _agent_in(name: str, attributes: Attributes) -> str | None:
    return current_agent(attributes.get(_STEP))


class LlamaIndex(Dialect):
    """Spans of the scope `llamaindex.opentelemetry.tracer`."""

    name = "llama_index"
    rank = 180
    is_by_names = True
    content_switch = "register LlamaIndexOpenTelemetry before the agent runs"
    keys = AttributeKeys(agent_of=(_agent_in,))

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        return span.scope == _SCOPE

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        facts = SpanFacts()
        start = next((event.attributes for event in span.events if event.name in _STARTS), None)
        end = next((event.attributes for event in span.events if event.name in _ENDS), None)
        step = span.attributes.get(_STEP)
        if start is not None or end is not None:
            facts.role = SpanRole.MODEL
            _read_model(facts, start or end or {}, end or {})
        elif span.name.endswith(_TOOLS) and isinstance(step, str) and step.startswith(_CALL):
            facts.role = SpanRole.TOOL
            _read_tool(facts, step)
        elif span.name.endswith(_RUN):
            facts.role = SpanRole.AGENT if "Agent" in span.name else SpanRole.WORKFLOW
        return facts


def _read_model(facts: SpanFacts, start: Attributes, end: Attributes) -> None:
    if (sent := start.get("messages", start.get("prompt"))) is not None:
        facts.input = Content.recorded_as(sent, USER)
    facts.tool_definitions = start.get("additional_kwargs.tools")
    facts.model = first_text(end, f"{_RAW}model") or first_text(start, "model_dict.model_name", "model_dict.model")
    facts.response_id = first_text(end, f"{_RAW}id")
    facts.finish_reason = next(filter(None, map(api_bodies.finish_reason, _texts(end, _RAW))), None)
    counts = ({key.removeprefix(prefix): end[key] for key in end if key.startswith(prefix)} for prefix in _USAGES)
    facts.usage = next(filter(None, map(api_bodies.usage, counts)), None)
    if _REPLY + "role" in end:
        facts.output = Content(lambda: [_reply(end)], cut=any(map(is_cut, _texts(end, _REPLY))))
    elif (text := end.get("response.text")) is not None:
        facts.output = Content(lambda: message_items(text, ASSISTANT))


def _texts(attributes: Attributes, prefix: str) -> list[str]:
    return [value for key, value in attributes.items() if key.startswith(prefix) and isinstance(value, str)]


def _reply(end: Attributes) -> Json:
    """Return the reply, whose fields are spread over attributes. Only newer versions have calls among the blocks."""
    blocks = decode_structure(end.get(f"{_REPLY}blocks"))
    calls = decode_structure(end.get(f"{_REPLY}additional_kwargs.tool_calls"))
    has_calls = isinstance(blocks, list) and any(object_in(block).get("block_type") == "tool_call" for block in blocks)
    return {"role": ASSISTANT, "blocks": blocks, "tool_calls": None if has_calls else calls}


def _read_tool(facts: SpanFacts, step: str) -> None:
    try:
        call = object_in(decode_repr(step))
    except ValueError:  # Cut: the request of the model has the arguments.
        named = re.match(r"ToolCall\(tool_name='([^']+)'", step)
        facts.tool = known_text(named[1]) if named else None
        return
    facts.tool, facts.call_id = first_text(call, "tool_name"), first_text(call, "tool_id")
    facts.arguments = call.get("tool_kwargs")
