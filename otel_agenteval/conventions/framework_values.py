"""Read questions, answers and tool results from the objects that frameworks record as a span's input and output."""

import re
from typing import Final

from otel_agenteval.conventions.content import ASKED, Content
from otel_agenteval.conventions.decoding import (
    decode_structure,
    decode_text,
    decode_value,
    is_cut,
    known_text,
    object_in,
)
from otel_agenteval.conventions.dialect import SpanFacts
from otel_agenteval.conventions.messages import ASSISTANT, USER, ChatMessage, read_message
from otel_agenteval.conventions.python_repr import decode_repr
from otel_agenteval.model import Json

_ANSWERED = ("output", "answer", "result", "response", "final_output", "text")


def asked(value: Json) -> Content | None:
    """Return the user's words in the recorded input of a span; None if it holds something else or nothing."""
    return _spoken(value, USER, ASKED)


def answered(value: Json) -> Content | None:
    """Return the agent's answer in the recorded output of a span; None if it holds something else or nothing."""
    return _spoken(value, ASSISTANT, _ANSWERED)


def read_result(facts: SpanFacts, recorded: Json) -> None:
    """Fill in a tool's result, its error, and the id of the call. LangChain puts a message around them, which is taken
    off."""
    facts.result = decode_text(recorded)
    if isinstance(facts.result, str) and facts.result.startswith(_TOOL_OUTPUTS):
        _read_tool_output(facts, object_in(decode_structure(facts.result)))
        return
    message = langchain_message(facts.result)
    if message and message.responses:
        response = message.responses[0]
        facts.result, facts.call_id = response.result, response.call_id
        if response.failed:
            facts.error = response.result if isinstance(response.result, str) else "error"


_TOOL_OUTPUTS: Final = ('{"blocks"', '{"tool_name"')


def _read_tool_output(facts: SpanFacts, recorded: dict[str, Json]) -> None:
    """Read the text and the error in LlamaIndex's object of a result, or of a call with its result."""
    output = object_in(recorded.get("tool_output", recorded))
    if "blocks" not in output or "tool_name" not in output:
        return
    facts.call_id = known_text(recorded.get("tool_id"))
    facts.result = decode_text(output["blocks"])
    if output.get("is_error") is True:
        facts.error = facts.result if isinstance(facts.result, str) else "error"


_AGENT: Final = "current_agent_name"
_NAMED: Final = re.compile(r"""(?:=|"\s*:\s*)(?:'([^']{1,200})'|"([^"]{1,200})")""")


def current_agent(step: Json) -> str | None:
    """Return the agent that LlamaIndex names in the state of a step, as Python or JSON write it. What was said stands
    before the name."""
    at = step.rfind(_AGENT) if isinstance(step, str) else -1
    match = _NAMED.match(step, at + len(_AGENT)) if isinstance(step, str) and at >= 0 else None
    return known_text(match[1] or match[2]) if match else None


_MESSAGE_REPR: Final = "ChatMessage(_role="


def read_reprs(values: Json) -> list[Json] | None:
    """Return Haystack's messages, which are recorded as Python writes them; None for anything else."""
    if not isinstance(values, list) or not values:
        return None
    try:
        return [
            decode_repr(value) for value in values if isinstance(value, str) and value.startswith(_MESSAGE_REPR)
        ] or None
    except ValueError:
        return None


def langchain_message(value: Json) -> ChatMessage | None:
    """Return the message in one of LangChain's serialisations of a message object; None if there is none."""
    if isinstance(value, str) and value.startswith('{"'):
        value = decode_structure(value)
    if isinstance(value, dict) and len(value) == 1 and isinstance(inner := value.get("output"), dict) and "lc" in inner:
        value = inner
    if isinstance(value, dict) and ("data" in value or "kwargs" in value or "tool_call_id" in value):
        return read_message(value)
    return None


def _spoken(value: Json, role: str, names: tuple[str, ...]) -> Content | None:
    if isinstance(value, str):
        if is_cut(value):
            return None
        value = decode_value(value)
    return _in_object(value, role, names) if isinstance(value, dict) else _in_value(value, role)


def _in_object(fields: dict[str, Json], role: str, names: tuple[str, ...]) -> Content | None:
    if {"args", "kwargs"} <= fields.keys():
        return _of_call(fields, role, names)
    named = next((fields[name] for name in names if name in fields), None)
    if message := langchain_message(fields):
        return Content(lambda: [message])
    value = fields.get("messages", fields.get("replies", _of_component(fields) if named is None else named))
    if isinstance(value, dict):  # LlamaIndex's end of a run has an object with the reply, and that a message.
        return Content(lambda: [value]) if "role" in value else _in_object(value, role, names)
    return _in_value(value, role)


def _in_value(value: Json, role: str) -> Content | None:
    if isinstance(value, list):
        items = read_reprs(value) or value
        # Other texts are several. Nobody said them.
        return Content(lambda: items) if any(isinstance(item, dict) for item in items) else None
    text = known_text(value)
    if text is None:
        return Content.answer_in(value) if role == ASSISTANT else None
    # An object in another notation than JSON. Nobody said it.
    return None if text.lstrip().startswith("{") else Content.text(text, role)


def _of_component(results: dict[str, Json]) -> Json:
    """Return the message of a model's response, or those of a pipeline's only component, found under its name."""
    # Genkit's response, Google ADK's event and input, the end of a run of AutoGen's.
    for name in ("message", "content", "new_message", "chat_message"):
        if isinstance(said := results.get(name), dict):
            return [said]
    values = list(results.values())
    only = values[0] if len(values) == 1 and isinstance(values[0], dict) else {}
    return only.get("messages", only.get("replies"))


def _of_call(call: dict[str, Json], role: str, names: tuple[str, ...]) -> Content | None:
    """Return the user's words in the arguments of a decorated function: the argument with one of `names`, or the only
    text."""
    positional, named = call["args"], call["kwargs"]
    if isinstance(named, dict) and (name_found := next((named[name] for name in names if name in named), None)):
        return _spoken(name_found, role, names)
    values = [
        *(positional if isinstance(positional, list) else ()),
        *(named.values() if isinstance(named, dict) else ()),
    ]
    texts = [value for value in values if isinstance(value, str)]
    others = [value for value in values if isinstance(value, dict | list)]
    answer = texts or others
    return _spoken(answer[0], role, names) if len(answer) == 1 else None
