"""Whether the agent took steps in vain.

A step is a tool call. In vain are calls that repeat a successful one with the same arguments and the same result,
and retries of a failed call with the same arguments that fail again. Whether a shorter way existed takes a judge.
"""

from agenteval_collector.evaluators.port import EvaluationContext, unrecorded
from agenteval_collector.evaluators.reasons import named_calls, no_calls
from agenteval_collector.evaluators.repetition import calls_in_vain
from otel_agenteval.outcome import Method, Outcome, Score


class StepEfficiency:
    """1 - calls in vain / calls."""

    name = "step_efficiency"
    version = "embedded-1"
    method = Method.HEURISTIC

    def evaluate(self, context: EvaluationContext) -> Outcome:
        trace = context.trace
        calls = trace.tool_calls
        if not calls:
            return no_calls(trace)
        if all(call.arguments is None for call in calls):
            return unrecorded("what the tools were called with", trace)
        vain = {index: str(why) for index, why in calls_in_vain(calls)}
        return Score(
            value=1 - len(vain) / len(calls),
            reason=named_calls(calls, vain, "none in vain"),
            metadata={"calls": len(calls), "in_vain": len(vain)},
        )
