"""Whether tools were called with arguments that fit their schema and were not made up.

A call is wrong where its arguments are cut or broken JSON, where they do not fit the tool's JSON schema, or where an
identifier or a number in them was not said before the call (`grounding`): by the user, the instructions, the tools'
descriptions and results, or an answer of an earlier turn. It is right where it is not wrong and there was something
to check. What was said in earlier traces is known by what the model was sent of them. Nothing can be called made up
where the conversation is not known: in a session's later traces that were sent nothing of it, in cut traces, and after
a result that was not recorded. Whether arguments are the best ones takes a judge.
"""

import json
from collections.abc import Iterator

from agenteval_collector.evaluators.grounding import Conversation, Said, looked_up
from agenteval_collector.evaluators.port import EvaluationContext, unrecorded
from agenteval_collector.evaluators.reasons import named_calls, no_calls, not_applicable, quote
from agenteval_collector.evaluators.schemas import SchemaChecks, Uncheckable
from otel_agenteval.model import Json, Tool, ToolCall, Trace
from otel_agenteval.outcome import Method, Outcome, Score


class ArgumentCorrectness:
    """Right calls / calls that could be checked."""

    name = "argument_correctness"
    version = "embedded-1"
    method = Method.HEURISTIC

    def evaluate(self, context: EvaluationContext) -> Outcome:
        trace = context.trace
        calls = trace.tool_calls
        if not calls:
            return no_calls(trace)
        if all(call.arguments is None for call in calls):
            return unrecorded("what the tools were called with", trace)
        wrong, checked = _check(trace, first=not context.previous)
        if not checked:
            reason = "nothing to check the arguments by: no schema that can be used, and no value that was said before"
            return not_applicable(f"{reason}; takes a judge")
        return Score(
            value=1 - len(wrong) / checked,
            reason=named_calls(calls, wrong, "all arguments fit or were said before", of=checked),
            metadata={"calls": len(calls), "checked": checked, "wrong": len(wrong)},
        )


def _check(trace: Trace, *, first: bool) -> tuple[dict[int, str], int]:
    """What is wrong with which calls, and how many could be checked. `first`: nothing of the session came before."""
    said = Conversation(complete=(first or bool(trace.history)) and not trace.partial)
    for text in _before(trace):
        said.add(text)
    schemas, tools = SchemaChecks(), {tool.name: tool for tool in trace.available_tools}
    wrong: dict[int, str] = {}
    checked = index = 0
    for turn in trace.turns:
        said.add(turn.input)
        for call in turn.tool_calls:
            verdicts = [_broken(call, trace), _misfit(call, tools.get(call.name), schemas), _unsaid(call, said)]
            if any(verdicts):
                wrong[index] = next(filter(None, verdicts))
            checked += any(verdict is not None for verdict in verdicts)
            said.add(call.error if call.result is None else _text(call.result))
            index += 1
        said.add(turn.output or "")
    return wrong, checked


# Each check gives what is wrong, "" where nothing is, and None where it has nothing to say.


def _broken(call: ToolCall, trace: Trace) -> str | None:
    if isinstance(call.arguments, str) and call.arguments.lstrip()[:1] in ("{", "[") and not trace.partial:
        return "has arguments that are no JSON"
    return None


def _misfit(call: ToolCall, tool: Tool | None, schemas: SchemaChecks) -> str | None:
    if call.arguments is None or isinstance(call.arguments, str) or tool is None:
        return None
    try:
        error = schemas.error(call.arguments, tool.parameters)
    except Uncheckable:
        return None
    return f"does not fit its schema: {quote(error)}" if error else ""


def _unsaid(call: ToolCall, said: Conversation) -> str | None:
    known = [(value, said.has(value)) for value in looked_up(call.arguments)]
    for value, answer in known:
        if answer is Said.NO:
            return f"has {quote(str(value))}, which was not said before"
    return "" if known and all(answer is Said.YES for _, answer in known) else None


def _before(trace: Trace) -> Iterator[str]:
    """What was said before the first turn."""
    yield trace.system_instructions or ""
    for said in trace.history:
        yield _text(said)
    for tool in trace.available_tools:
        yield f"{tool.name} {tool.description or ''} {_text(tool.parameters)}"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
