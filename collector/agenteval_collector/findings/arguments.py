"""Arguments of tool calls that do not fit the tool, and values in them that nobody said."""

from collections.abc import Iterator
from itertools import islice

from agenteval_collector.findings.grounding import Conversation, Said, looked_up
from agenteval_collector.findings.observing import Observed, Subject, of_call, quote, written
from agenteval_collector.findings.schemas import SchemaChecks, Uncheckable
from agenteval_collector.problems import shape_of
from otel_agenteval.model import Json, ToolCall

MAX_UNSAID = 10
"""Values of one call that are named at most."""


def invalid(subject: Subject) -> Iterator[Observed]:
    """Find arguments that are broken JSON, or do not fit the JSON schema that was recorded of the tool."""
    schemas = SchemaChecks()
    parameters = {tool.name: tool.parameters for tool in subject.trace.available_tools}
    for turn, call in subject.calls():
        if subject.trace.partial and isinstance(call.arguments, str):
            continue  # The telemetry may have been cut, not the arguments.
        if _is_broken(call.arguments):
            reason = f"was called with arguments that are no JSON: {quote(written(call.arguments))}"
            yield of_call(turn, call, reason, shape="no JSON")
        elif misfit := _misfit(call, parameters.get(call.name), schemas):
            reason = f"was called with arguments that do not fit its schema: {quote(misfit)}"
            yield of_call(turn, call, reason, shape=shape_of(misfit))


def _is_broken(arguments: Json) -> bool:
    """Return whether arguments were meant to be JSON and are not. Some tools take plain text, and libraries write
    objects in the notation of Python: neither is broken."""
    return isinstance(arguments, str) and arguments.lstrip()[:1] in ("{", "[") and arguments.lstrip()[1:2] != "'"


def _misfit(call: ToolCall, schema: Json, schemas: SchemaChecks) -> str | None:
    if call.arguments is None or isinstance(call.arguments, str):
        return None
    if call.span_id is not None and isinstance(schema, dict):
        # Where a tool was executed, a framework may have added arguments of its own to those of the model.
        schema = {key: value for key, value in schema.items() if key != "additionalProperties"}
    try:
        return schemas.error(call.arguments, schema)
    except Uncheckable:
        return None


def unsaid(subject: Subject) -> Iterator[Observed]:
    """Find identifiers and numbers in arguments that nothing before the call contains: no user, instruction,
    description of a tool, result or answer.

    Looks only where everything that came before is known (`grounding`).
    """
    if not subject.is_history_known or not subject.trace.tool_calls:
        return
    said = Conversation(complete=True)
    for text in _before(subject):
        said.add(text)
    for index, turn in subject.turns():
        said.add(turn.input)
        for call in turn.tool_calls:
            values = (value for value in looked_up(call.arguments) if said.has(value) is Said.NO)
            if unsaid := [quote(str(value)) for value in islice(dict.fromkeys(values), MAX_UNSAID)]:
                reason = f"was called with {quote(', '.join(unsaid))}, which nothing before contains"
                yield of_call(index, call, reason, values=[*unsaid])
            said.add(call.error if call.result is None else written(call.result))
        said.add(turn.output or "")


def _before(subject: Subject) -> Iterator[str]:
    trace = subject.trace
    yield trace.system_instructions or ""
    yield from map(written, trace.history)
    for tool in trace.available_tools:
        yield f"{tool.name} {tool.description or ''} {written(tool.parameters)}"
