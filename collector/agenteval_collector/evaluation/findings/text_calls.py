"""Observer of tool calls that a model wrote into its reply instead of making them. No one executes these calls, and the
user reads them.

- A tool that was called in the turn is left out, in whatever form the model asked for it.
- A call that tags or tokens mark counts for a known tool if it begins a line or ends the reply. For an unknown tool it
  counts if it is the whole reply, or if it ends the reply and the trace names no tools at all.
- Bare JSON or Python counts only for a known tool, at the end of the reply.

So an answer that explains calls is no finding.
"""

from collections.abc import Iterator

from agenteval_collector.evaluation.findings.call_syntax import WrittenCalls, written_calls
from agenteval_collector.evaluation.findings.observers import Observation, ObservedTrace
from agenteval_collector.model.failed_calls import quote
from otel_agenteval.model import Turn

_ANSWERS = frozenset(("final_answer",))
"""Tools by which a framework has a model answer. Such a call as text is an answer."""


def written_out(observed: ObservedTrace) -> Iterator[Observation]:
    """Find replies and answers that hold a tool call as text."""
    trace = observed.trace
    names = frozenset(tool.name for tool in trace.available_tools) | {call.name for call in trace.tool_calls}
    for index, turn in observed.turns():
        made = {call.name for call in turn.tool_calls}
        for span_id, agent, text in _said(turn):
            calls = written_calls(text)
            if calls is None:
                continue
            tools = [tool for tool in calls.tools if tool not in made | _ANSWERS and _counts(calls, tool, names)]
            if tools:
                reason = (
                    f"a call of {quote(tools[0])} was written as text instead of being made: {quote(calls.excerpt)}"
                )
                yield Observation(
                    reason=reason,
                    turn=index,
                    span_id=span_id,
                    agent=agent,
                    tool=quote(tools[0]),
                    metadata={"tools": [quote(tool) for tool in dict.fromkeys(tools)]},
                )


def _counts(calls: WrittenCalls, tool: str, names: frozenset[str]) -> bool:
    if tool in names:
        return not calls.is_marked or calls.ends or calls.opens_line
    return calls.is_marked and calls.ends and (calls.begins or not names)


def _said(turn: Turn) -> Iterator[tuple[str, str | None, str]]:
    """Yield span, agent and text of each reply in a turn, and of its answer if that is none of the replies."""
    replies = [(call.span_id, call.agent, call.output) for call in turn.model_calls if call.output]
    answered = (text for _, _, text in replies)
    yield from replies
    if turn.output and turn.output not in answered:
        yield turn.span_id, turn.agent, turn.output
