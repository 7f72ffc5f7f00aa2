"""Observers of tool calls: calls that failed, named an unknown tool or brought the same result again, arguments that do
not fit the tool, and values in arguments that nobody said."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from agenteval_collector.evaluation.findings.grounding import SaidValues, looked_up
from agenteval_collector.evaluation.findings.observers import Observation, ObservedTrace, of_call, written
from agenteval_collector.evaluation.findings.schemas import SchemaChecks, Uncheckable
from agenteval_collector.model.failed_calls import quote
from agenteval_collector.model.problem_shape import shape_of
from otel_agenteval.detectors.likeness import Result
from otel_agenteval.detectors.tool_names import receiver_in, tool_name
from otel_agenteval.finding import Severity
from otel_agenteval.model import CallOutcome, Json, ToolCall

_SAYS_NOTHING = "error"
"""The text of an error whose words were not recorded."""

MAX_OFFERED = 20
"""Offered tools that are listed at most, as evidence that another one is unknown."""


def failed(observed: ObservedTrace) -> Iterator[Observation]:
    """Find calls that failed: their span ended in an error, or their result tells of one by an exit code, a field, a
    status of HTTP or its first words (`detectors/call_outcomes.py`).

    A call whose outcome was not recorded neither worked nor failed.
    """
    for turn, call in observed.outcomes():
        if call.error is not None:
            words = call.error if call.error != _SAYS_NOTHING or call.result is None else written(call.result)
            told_by = "result" if call.is_error_read else "status"
            yield of_call(
                turn, call, f"failed: {quote(words)}", told_by=told_by, shape=shape_of(words, call.error_type)
            )


def nonzero_exit(observed: ObservedTrace) -> Iterator[Observation]:
    """Find calls of commands such as `grep` or `diff` that exited with 1, which may be their answer."""
    for turn, call in observed.outcomes():
        if call.outcome is CallOutcome.VERDICT:
            yield of_call(turn, call, f"ended with {call.told_by}, which may be the answer", told_by=call.told_by)


def unknown(observed: ObservedTrace) -> Iterator[Observation]:
    """Find calls of tools that the model was not offered, if it was recorded which tools it was offered.

    Tools that hand the conversation over are left out: frameworks do not always list them.
    """
    if observed.trace.partial:
        return
    for turn, call in observed.calls():
        if call.is_offered is False and receiver_in(call.name) is None:
            offered: list[Json] = [quote(tool.name) for tool in observed.trace.available_tools[:MAX_OFFERED]]
            yield of_call(turn, call, "was called, but no tool of this name was offered", offered=offered)


def repeated(observed: ObservedTrace) -> Iterator[Observation]:
    """Find calls with the same arguments as an earlier call of the tool in the trace.

    From `OFTEN` on it is one finding, a warning, whatever came back. Fewer are found one by one if the outcome (result
    or error) is the same, too. A call whose arguments or outcome were not recorded is not compared.
    """
    for same in _same_calls(observed).values():
        if len(same) >= OFTEN:
            turn, call = same[-1]
            times = [call.started_at for _, call in same if call.started_at is not None]
            within = f" within {(max(times) - min(times)) / 1e9:.0f} s" if len(times) > 1 else ""
            reason = f"was called {len(same)} times with {quote(written(call.arguments))}{within}"
            yield replace(of_call(turn, call, reason, calls=len(same)), severity=Severity.WARNING)
            continue
        outcomes: set[bytes] = set()
        for turn, call in same:
            outcome = _digest(_outcome(call) or "")
            if outcome in outcomes:
                what = "error" if call.error is not None else "result"
                arguments = quote(written(call.arguments))
                yield of_call(turn, call, f"was called with {arguments} before, and gave the same {what} again")
            outcomes.add(outcome)


def repeated_effects(observed: ObservedTrace) -> Iterator[Observation]:
    """Find calls that did the same thing in the world again: the same arguments, success, and each time a confirmation
    that names something new, such as the number of one more ticket, or that says less than the call did.

    A tool that reads, searches or judges has no effect. Nor, as far as anybody knows, has a call without arguments: it
    may only move on, as to the next page.
    """
    for same in _same_calls(observed).values():
        name = tool_name(same[0][1].name)
        if name.reads or name.searches or name.judges or name.thinks or name.waits or not same[0][1].arguments:
            continue
        done = [
            (turn, call, Result(written(call.result), written(call.arguments), call.outcome))
            for turn, call in same
            if call.outcome is CallOutcome.WORKED and call.result is not None
        ]
        if len(done) > 1 and _confirm_anew([result for _, _, result in done]):
            turn, call, _ = done[-1]
            reason = f"was done {len(done)} times with {quote(written(call.arguments))}, each time with success"
            yield of_call(turn, call, reason, calls=len(done))


def _confirm_anew(results: Sequence[Result]) -> bool:
    """Return whether results are confirmations that differ in nothing but what they name."""
    if len({result.hash for result in results}) < len(results) or any(result.is_content for result in results):
        return False
    if len({result.frame() for result in results}) > 1:
        return False
    names = [result.new_names() for result in results]
    is_named = all(names) and len(set.union(*names)) == sum(map(len, names))
    # Of a message, often only the time of sending is told.
    differ_in_times = len({result.without_times() for result in results}) == 1
    return is_named or (differ_in_times and all(result.says_less_than_asked for result in results))


def _same_calls(observed: ObservedTrace) -> dict[bytes, list[tuple[int, ToolCall]]]:
    """Return the calls whose arguments and outcome were recorded, by tool and arguments."""
    groups: defaultdict[bytes, list[tuple[int, ToolCall]]] = defaultdict(list)
    for turn, call in observed.calls():
        if call.arguments is not None and _outcome(call) is not None:
            groups[_digest(f"{call.name} {written(call.arguments)}")].append((turn, call))
    return groups


def _outcome(call: ToolCall) -> str | None:
    return call.error if call.result is None else written(call.result)


OFTEN: Final = 5
"""Calls of a tool with the same arguments in one trace that are a finding whatever they brought."""


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
    known_values = SaidValues()
    for text in _before(observed):
        known_values.add(text)
    for index, turn in observed.turns():
        known_values.add(turn.input)
        for call in turn.tool_calls:
            values = (value for value in looked_up(call.arguments) if known_values.lacks(value))
            if unsaid := [quote(str(value)) for value in islice(dict.fromkeys(values), MAX_UNSAID)]:
                reason = f"was called with {quote(', '.join(unsaid))}, which nothing before contains"
                yield of_call(index, call, reason, values=[*unsaid])
            known_values.add(call.error if call.result is None else written(call.result))
        known_values.add(turn.output or "")


def _before(observed: ObservedTrace) -> Iterator[str]:
    trace = observed.trace
    yield trace.system_instructions or ""
    yield from map(written, trace.history)
    for tool in trace.available_tools:
        yield f"{tool.name} {tool.description or ''} {written(tool.parameters)}"
