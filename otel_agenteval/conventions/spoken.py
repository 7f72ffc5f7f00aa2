"""Read question and answer from a framework's span, in whatever object its library recorded.

Only shapes known to hold the user's words or the answer are read, since a wrong text is worse than none.
"""

from contextlib import suppress

from otel_agenteval.conventions.decoding import decode_json, decode_structure, is_cut
from otel_agenteval.conventions.messages import ASSISTANT, USER, Content, Message, read_message
from otel_agenteval.model import Json
from otel_agenteval.recorded import recorded

_ASKED = ("task", "input", "question", "query", "prompt", "user_input", "message")
_ANSWERED = ("output", "answer", "result", "response", "final_output")


def asked(value: Json) -> Content | None:
    """The user's words in a value recorded as a span's input; None where it holds something else or nothing."""
    return _spoken(value, USER, _ASKED)


def answered(value: Json) -> Content | None:
    """The agent's answer in a value recorded as a span's output; None like that of `asked`."""
    return _spoken(value, ASSISTANT, _ANSWERED)


def langchain_message(value: Json) -> Message | None:
    """The message in one of LangChain's serialisations of a message object; None where there is none."""
    if isinstance(value, str) and value.startswith('{"'):
        value = decode_structure(value)
    if isinstance(value, dict) and ("data" in value or "kwargs" in value or "tool_call_id" in value):
        return read_message(value)
    return None


def _spoken(value: Json, role: str, names: tuple[str, ...]) -> Content | None:
    if isinstance(value, str):
        if is_cut(value):
            return None
        if value.lstrip()[:1] in ("{", "[", '"'):
            with suppress(ValueError):
                value = decode_json(value)
    if isinstance(value, dict):
        if {"args", "kwargs"} <= value.keys():
            return _of_call(value, role, names)
        named = next((value[name] for name in names if name in value), None)
        if message := langchain_message(value):
            return Content(lambda: [message])
        value = value.get("messages", _of_component(value) if named is None else named)
    if isinstance(value, list):
        items = value
        # A list of texts is the repr of objects, or several texts: nobody's words.
        return Content(lambda: items) if any(isinstance(item, dict) for item in items) else None
    text = recorded(value)
    if text is None:
        return Content.answer_in(value) if role == ASSISTANT else None
    # An object that is not written as JSON is nobody's words.
    return None if text.lstrip().startswith("{") else Content.text(text, role)


def _of_component(results: dict[str, Json]) -> Json:
    """The messages of a pipeline's only component, which stand under its name."""
    values = list(results.values())
    return values[0].get("messages") if len(values) == 1 and isinstance(values[0], dict) else None


def _of_call(call: dict[str, Json], role: str, names: tuple[str, ...]) -> Content | None:
    """The user's words in the arguments of a decorated function: the one that is named so, or the only one that can be.

    A function that takes several texts does not say which of them is the user's.
    """
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
