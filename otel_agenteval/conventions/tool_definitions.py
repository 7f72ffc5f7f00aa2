"""Read the tools that a model was offered."""

from collections.abc import Iterable, Sequence

from otel_agenteval.conventions.decoding import decode_remains, decode_structure, is_cut, known_text, object_in
from otel_agenteval.conventions.dialect import SpanFacts
from otel_agenteval.conventions.messages import ToolRequest
from otel_agenteval.conventions.steering import is_steering
from otel_agenteval.conventions.tree import Node
from otel_agenteval.model import Json, Tool, ToolCall

_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parameters_json_schema")


def available_tools(facts: Iterable[SpanFacts], called: Iterable[ToolCall], agents: Sequence[str]) -> tuple[Tool, ...]:
    """Return the tools that were offered: those that model spans define, else those that agent spans name, else those
    that were called."""
    facts = list(facts)
    definitions: dict[str, Json] = {}
    for fact in facts:
        if fact.tool_definitions is not None:
            definitions.setdefault(repr(fact.tool_definitions), fact.tool_definitions)
    offered = [tool for recorded in definitions.values() for tool in _defined(recorded)]
    offered = offered or [Tool(name=name) for fact in facts for name in fact.tool_names or ()]
    offered = offered or [Tool(name=call.name) for call in called]
    answering = {name for fact in facts for name in fact.answer_tools or ()}
    tools: dict[str, Tool] = {}
    for tool in offered:
        if tool.name not in answering and not is_steering(ToolRequest(name=tool.name), agents):
            tools.setdefault(tool.name, tool)
    return tuple(tools.values())


class OfferedTools:
    """The tools that the model calls of a turn were offered. Most of them repeat the same definitions, read here
    once."""

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str] | None] = {}

    def by(self, node: Node, tool: str) -> bool | None:
        """Return whether the model call `node` was offered `tool`; None if that is not known."""
        recorded = node.facts.tool_definitions
        if recorded is None:
            return None
        key = recorded if isinstance(recorded, str) else repr(recorded)
        if key not in self._names:
            self._names[key] = _all_names(recorded)
        names = self._names[key]
        return None if names is None else tool in names


def _all_names(recorded: Json) -> frozenset[str] | None:
    """Return the names in recorded definitions. None if they were cut or one has no name, such as a tool that the
    provider runs itself."""
    if is_cut(recorded):
        return None
    value = decode_structure(recorded)
    defined = _defined(value)
    count = len(value) if isinstance(value, list) else 1
    return frozenset(tool.name for tool in defined) if len(defined) == count else None


def _defined(recorded: Json) -> list[Tool]:
    """Return the tools in a recorded list of definitions; of a list that was cut, the complete ones."""
    value = decode_remains(recorded)
    definitions = value if isinstance(value, list) else [value]
    tools = []
    for definition in definitions[: len(definitions) - is_cut(recorded)]:
        schema = object_in(decode_structure(definition))
        # Haystack has them in `data`, if `function` is the name of one.
        fields = object_in(schema.get("function")) or object_in(schema.get("data")) or schema
        if name := known_text(fields.get("name")):
            parameters = next((decode_structure(fields[key]) for key in _SCHEMAS if key in fields), None)
            tools.append(Tool(name=name, description=known_text(fields.get("description")), parameters=parameters))
    return tools
