"""Whether the tools that were called exist, work, and were needed.

A call is wrong where its tool was not on offer, where it failed, or where it repeats a successful call of the trace
with the same arguments and the same result. Whether a better tool was on offer, or one should have been called and
was not, takes a judge.
"""

from agenteval_collector.evaluators.port import EvaluationContext
from agenteval_collector.evaluators.reasons import named_calls, no_calls
from agenteval_collector.evaluators.repetition import Vain, calls_in_vain
from otel_agenteval.outcome import Method, Outcome, Score


class ToolCorrectness:
    """Share of the trace's tool calls that are not wrong."""

    name = "tool_correctness"
    version = "embedded-1"
    method = Method.HEURISTIC

    def evaluate(self, context: EvaluationContext) -> Outcome:
        trace = context.trace
        calls = trace.tool_calls
        if not calls:
            return no_calls(trace)
        # Where no definitions were recorded, the tools that were called are what is known of the offer; of a cut
        # trace, some definitions may be missing.
        offered = set() if trace.partial else {tool.name for tool in trace.available_tools}
        wrong = {index: str(why) for index, why in calls_in_vain(calls) if why is Vain.REPEATED}
        for index, call in enumerate(calls):
            if call.error is not None:
                wrong[index] = "failed"
            elif offered and call.name not in offered:
                wrong[index] = "is not among the available tools"
        return Score(
            value=1 - len(wrong) / len(calls),
            reason=named_calls(calls, wrong, "each known and working, none repeated"),
            metadata={"calls": len(calls), "wrong": len(wrong)},
        )
