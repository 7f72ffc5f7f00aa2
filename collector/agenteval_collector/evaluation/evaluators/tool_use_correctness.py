"""Tool use: the expected tools were called. It needs ground truth in the trace or a dataset.

This is the published tool correctness (`metrics.tool_use_correctness`), as far as it needs no judge. Selection,
parameters and sequence weigh a third each. If no expected call says its arguments, selection and sequence weigh a
half each. An expected call without arguments agrees with any.
"""

from collections.abc import Sequence

from agenteval_collector.evaluation.evaluators.ports import EvaluationContext, not_applicable
from otel_agenteval.conventions.run_attributes import EXPECTED_TOOLS
from otel_agenteval.metrics import ToolUse, tool_use_correctness
from otel_agenteval.model import ExpectedTool, Json, ToolCall
from otel_agenteval.outcome import Method, Outcome, Score, Status, Unscored

_BY_NAME = {"selection": 0.5, "parameters": 0.0, "sequence": 0.5, "utilization": 0.0}
_WITH_ARGUMENTS = {"selection": 1 / 3, "parameters": 1 / 3, "sequence": 1 / 3, "utilization": 0.0}


class ToolUseCorrectness:
    """The agreement of the trace's tool calls with the expected ones."""

    name = "tool_use_correctness"
    version = "1"
    method = Method.EXACT

    def evaluate(self, context: EvaluationContext) -> Outcome:
        trace = context.trace
        if trace.expected_tools is None and EXPECTED_TOOLS in trace.unread:
            return Unscored(
                status=Status.NO_CONTENT,
                reason="agenteval.expected_tools is not the JSON of a list of names or of"
                ' {"name": ..., "arguments": {...}}',
            )
        if trace.expected_tools is None:
            return not_applicable("nothing says which tools were expected")
        expected = trace.expected_tools
        named = all(use.arguments is None for use in expected)
        result = tool_use_correctness(
            [_used(call, expected, by_name=named) for call in trace.tool_calls],
            [ToolUse(use.name, use.arguments or {}) for use in expected],
            weights=_BY_NAME if named else _WITH_ARGUMENTS,
        )
        assert result.score is not None, "only the compatible variant leaves it undefined"
        return Score(value=result.score, reason=result.reason, metadata=result.metadata)


def _used(call: ToolCall, expected: Sequence[ExpectedTool], *, by_name: bool) -> ToolUse:
    """Return the call in the form that is compared, without arguments if none are expected of its tool."""
    any_arguments = by_name or all(use.arguments is None for use in expected if use.name == call.name)
    arguments: dict[str, Json] = call.arguments if isinstance(call.arguments, dict) and not any_arguments else {}
    return ToolUse(call.name, arguments)
