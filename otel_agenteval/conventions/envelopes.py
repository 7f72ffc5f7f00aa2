"""Take off what frameworks put around the arguments and the result of a tool's call.

Recorded is often not what the model asked for, but the call of a function of the framework: {"input": {...}, "options":
null}. Both readings follow from the names in the tables.
"""

import re
from typing import Final

from otel_agenteval.conventions.decoding import called_with, decode_structure, object_in
from otel_agenteval.conventions.dialect import SpanFacts
from otel_agenteval.conventions.python_repr import decode_repr
from otel_agenteval.model import Json

_HOLDS_ARGUMENTS: Final = frozenset(
    ("input", "arguments", "tool_input", "toolInput", "tool_args", "toolArgs", "kwargs", "args", "parameters", "params")
)
_ALONE: Final = frozenset(("input", "tool_input", "toolInput", "kwargs"))
"""Names that hold the arguments even if nothing stands beside them: as parameters of tools they are texts."""
_BESIDE_ARGUMENTS: Final = frozenset(
    (
        *("options", "config", "context", "metadata", "state", "runtime", "callbacks", "run_manager", "signal"),
        "sanitize_inputs_outputs",
        *("name", "tool", "tool_name", "toolName", "type", "id", "tool_call_id", "toolCallId", "call_id", "callId"),
    )
)
"""Names of what a framework hands on beside the arguments."""

_RESULT: Final = ("result", "output", "content", "value", "data")
_VALUE: Final = '{"_value": '
"""An object that stands for a text, as smolagents has them, begins so."""
_BESIDE_RESULT: Final = frozenset(("status", "error", "is_error", "isError", "success"))
_METHODS: Final = (".__call__", ".acall", ".ainvoke", ".arun", ".aforward")
"""Endings of the name of a Python method that runs a tool, which are never part of a tool's name."""
# The text of a Pydantic model: fields without a name around them.
_FIELDS: Final = re.compile(r"[a-z_]\w*=[\s\S]*\b(?:status|error|success)=")


def take_off(facts: SpanFacts) -> None:
    """Leave of a tool's call what the model asked for, and what the tool gave back."""
    if facts.tool is not None:
        for method in _METHODS:
            facts.tool = facts.tool.removesuffix(method) or facts.tool
    facts.arguments = arguments_in(facts.arguments)
    if isinstance(facts.result, str):
        if facts.result.startswith(_VALUE):
            facts.result = object_in(decode_structure(facts.result)).get("_value", facts.result)
        elif _FIELDS.match(facts.result):
            _read_fields(facts, facts.result)


def arguments_in(recorded: Json) -> Json:
    """Return the arguments in what a framework recorded of a call; `recorded` itself if nothing is around them."""
    if not isinstance(recorded, dict):
        return recorded
    around = recorded.keys() & _HOLDS_ARGUMENTS
    if len(around) != 1 or not recorded.keys() - around <= _BESIDE_ARGUMENTS:
        return recorded
    [name] = around
    inner = decode_structure(recorded[name])
    if not isinstance(inner, dict) or (len(recorded) == 1 and name not in _ALONE):
        return recorded
    return arguments_in(called_with(inner))


def _read_fields(facts: SpanFacts, text: str) -> None:
    """Read the result and the error in the text of an object that has both. Other fields tell how it was run."""
    try:
        fields = object_in(decode_repr(f"Result({_with_commas(text)})"))
    except ValueError:
        return
    if fields.keys() & _BESIDE_RESULT and (name := next((key for key in _RESULT if key in fields), None)):
        facts.result = fields[name]
        error = fields.get("error")
        if isinstance(error, str) and error:
            facts.error = facts.error or error


_FIELD: Final = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(\s+)(?=[a-z_]\w*=)""")


def _with_commas(text: str) -> str:
    """Return the fields with commas between them, as decoding wants them. Texts stay as they are."""
    return _FIELD.sub(lambda match: match[1] or ", ", text)
