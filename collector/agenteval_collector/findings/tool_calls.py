"""Observers of tool calls: calls that failed, named an unknown tool or brought the same result again, arguments that do
not fit the tool, and values in arguments that nobody said."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

from agenteval_collector.findings.grounding import SaidValues, looked_up
from agenteval_collector.findings.observers import Observation, ObservedTrace, of_call, quote, written
from agenteval_collector.findings.schemas import SchemaChecks, Uncheckable
from agenteval_collector.problems.shape import shape_of
from otel_agenteval.detectors.tool_names import receiver_in
from otel_agenteval.model import Json, ToolCall

_SAYS_NOTHING = "error"
"""The text of an error whose words were not recorded."""

MAX_OFFERED = 20
"""Offered tools that are listed at most, as evidence that another one is unknown."""


def failed(observed: ObservedTrace) -> Iterator[Observation]:
    """Find calls whose span ended in an error, or whose result tells of one: by a field (`error`, `success`, `ok`,
    `isError`, `status`), or as a text that begins like an error ("Error: no such order").

    Other words in a result do not count. A call whose outcome was not recorded neither worked nor failed.
    """
    for turn, call in observed.outcomes():
        if call.error is not None:
            words = call.error if call.error != _SAYS_NOTHING or call.result is None else written(call.result)
            told_by = "result" if call.is_error_read else "status"
            yield of_call(turn, call, f"failed: {quote(words)}", told_by=told_by, shape=shape_of(words))


def unknown(observed: ObservedTrace) -> Iterator[Observation]:
    """Find calls of tools that the model was not offered, where it was recorded which tools it was offered.

    Tools that hand the conversation over are left out: frameworks do not always list them.
    """
    if observed.trace.partial:
        return
    for turn, call in observed.calls():
        if call.is_offered is False and receiver_in(call.name) is None:
            offered: list[Json] = [quote(tool.name) for tool in observed.trace.available_tools[:MAX_OFFERED]]
            yield of_call(turn, call, "was called, but no tool of this name was offered", offered=offered)


def repeated(observed: ObservedTrace) -> Iterator[Observation]:
    """Find calls with the same arguments and the same outcome (result or error) as an earlier call of the tool in the
    trace.

    A call whose arguments or outcome were not recorded is not compared.
    """
    results: defaultdict[bytes, set[bytes]] = defaultdict(set)
    for turn, call in observed.calls():
        outcome = call.error if call.result is None else written(call.result)
        if call.arguments is None or outcome is None:
            continue
        before, result = results[_digest(f"{call.name} {written(call.arguments)}")], _digest(outcome)
        if result in before:
            same = "error" if call.error is not None else "result"
            arguments = quote(written(call.arguments))
            yield of_call(turn, call, f"was called with {arguments} before, and gave the same {same} again")
        before.add(result)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


MAX_UNSAID = 10
"""Values of one call that are listed at most."""


def invalid_arguments(observed: ObservedTrace) -> Iterator[Observation]:
    """Find arguments that are broken JSON, or do not fit the recorded JSON schema of the tool."""
    schemas = SchemaChecks()
    parameters = {tool.name: tool.parameters for tool in observed.trace.available_tools}
    for turn, call in observed.calls():
        if observed.trace.partial and isinstance(call.arguments, str):
            continue  # Perhaps only the telemetry was cut.
        if _is_broken(call.arguments):
            reason = f"was called with arguments that are no JSON: {quote(written(call.arguments))}"
            yield of_call(turn, call, reason, shape="no JSON")
        elif misfit := _misfit(call, parameters.get(call.name), schemas):
            reason = f"was called with arguments that do not fit its schema: {quote(misfit)}"
            yield of_call(turn, call, reason, shape=shape_of(misfit))


def _is_broken(arguments: Json) -> bool:
    """Return whether arguments were meant to be JSON and are not. Plain text, which some tools take, is not broken;
    nor is an object in Python's notation, as some libraries record it."""
    return isinstance(arguments, str) and arguments.lstrip()[:1] in ("{", "[") and arguments.lstrip()[1:2] != "'"


def _misfit(call: ToolCall, schema: Json, schemas: SchemaChecks) -> str | None:
    if call.arguments is None or isinstance(call.arguments, str):
        return None
    if call.span_id is not None and isinstance(schema, dict):
        # The arguments of an executed call may hold some that a framework added to those of the model.
        schema = {key: value for key, value in schema.items() if key != "additionalProperties"}
    try:
        return schemas.error(call.arguments, schema)
    except Uncheckable:
        return None


def unsaid_values(observed: ObservedTrace) -> Iterator[Observation]:
    """Find identifiers and numbers in arguments that appear nowhere before the call: not in the user's words, the
    instructions, definitions of tools, results or answers.

    Only calls before which everything is known are looked at. `grounding` says which values count.
    """
    if not observed.is_history_known or not observed.trace.tool_calls:
        return
    said = SaidValues()
    for text in _before(observed):
        said.add(text)
    for index, turn in observed.turns():
        said.add(turn.input)
        for call in turn.tool_calls:
            values = (value for value in looked_up(call.arguments) if said.lacks(value))
            if unsaid := [quote(str(value)) for value in islice(dict.fromkeys(values), MAX_UNSAID)]:
                reason = f"was called with {quote(', '.join(unsaid))}, which nothing before contains"
                yield of_call(index, call, reason, values=[*unsaid])
            said.add(call.error if call.result is None else written(call.result))
        said.add(turn.output or "")


def _before(observed: ObservedTrace) -> Iterator[str]:
    trace = observed.trace
    yield trace.system_instructions or ""
    yield from map(written, trace.history)
    for tool in trace.available_tools:
        yield f"{tool.name} {tool.description or ''} {written(tool.parameters)}"
