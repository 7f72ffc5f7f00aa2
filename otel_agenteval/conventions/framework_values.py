"""Read questions, answers and tool results from the objects that frameworks record as a span's input and output."""

from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import decode_structure, decode_text, decode_value, is_cut, known_text
from otel_agenteval.conventions.dialect import SpanFacts
from otel_agenteval.conventions.messages import ASSISTANT, USER, ChatMessage, read_message
from otel_agenteval.model import Json

_ASKED = ("task", "input", "question", "query", "prompt", "user_input", "message")
_ANSWERED = ("output", "answer", "result", "response", "final_output")


def asked(value: Json) -> Content | None:
    """Return the user's words in the recorded input of a span; None where it holds something else or nothing."""
    return _spoken(value, USER, _ASKED)


def answered(value: Json) -> Content | None:
    """Return the agent's answer in the recorded output of a span; None where it holds something else or nothing."""
    return _spoken(value, ASSISTANT, _ANSWERED)


def read_result(facts: SpanFacts, recorded: Json) -> None:
    """Fill in a tool's result, its error, and the id of the call. LangChain puts a message around them, which is taken
    off."""
    facts.result = decode_text(recorded)
    message = langchain_message(facts.result)
    if message and message.responses:
        told = message.responses[0]
        facts.result, facts.call_id = told.result, told.call_id
        if told.failed:
            facts.error = told.result if isinstance(told.result, str) else "error"


def langchain_message(value: Json) -> ChatMessage | None:
    """Return the message in one of LangChain's serialisations of a message object; None where there is none."""
    if isinstance(value, str) and value.startswith('{"'):
        value = decode_structure(value)
    if isinstance(value, dict) and ("data" in value or "kwargs" in value or "tool_call_id" in value):
        return read_message(value)
    return None


def _spoken(value: Json, role: str, names: tuple[str, ...]) -> Content | None:
    if isinstance(value, str):
        if is_cut(value):
            return None
        value = decode_value(value)
    if isinstance(value, dict):
        if {"args", "kwargs"} <= value.keys():
            return _of_call(value, role, names)
        named = next((value[name] for name in names if name in value), None)
        if message := langchain_message(value):
            return Content(lambda: [message])
        value = value.get("messages", _of_component(value) if named is None else named)
    if isinstance(value, list):
        items = value
        # A list of texts is the repr of objects, or several texts. Nobody said it.
        return Content(lambda: items) if any(isinstance(item, dict) for item in items) else None
    text = known_text(value)
    if text is None:
        return Content.answer_in(value) if role == ASSISTANT else None
    # An object in another notation than JSON. Nobody said it.
    return None if text.lstrip().startswith("{") else Content.text(text, role)


def _of_component(results: dict[str, Json]) -> Json:
    """Return the messages of a pipeline's only component, found under the component's name."""
    values = list(results.values())
    return values[0].get("messages") if len(values) == 1 and isinstance(values[0], dict) else None


def _of_call(call: dict[str, Json], role: str, names: tuple[str, ...]) -> Content | None:
    """Return the user's words in the arguments of a decorated function: the argument with one of `names`, or the only
    text."""
    positional, named = call["args"], call["kwargs"]
    if isinstance(named, dict) and (found := next((named[name] for name in names if name in named), None)):
        return _spoken(found, role, names)
    values = [
        *(positional if isinstance(positional, list) else ()),
        *(named.values() if isinstance(named, dict) else ()),
    ]
    texts = [value for value in values if isinstance(value, str)]
    others = [value for value in values if isinstance(value, dict | list)]
    said = texts or others
    return _spoken(said[0], role, names) if len(said) == 1 else None
