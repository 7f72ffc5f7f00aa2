"""Answer correctness: the answer is the expected one, or contains it. It needs ground truth in the trace or a dataset.

This is the published comparison as far as it needs no judge (`metrics.answer_correctness`). An answer in other words is
wrong by it, so ground truth should be what any right answer contains: a name, a number, an id.
"""

from agenteval_collector.evaluation.evaluators.ports import EvaluationContext, not_applicable, unrecorded
from otel_agenteval.metrics import answer_correctness
from otel_agenteval.outcome import Method, Outcome, Score

MOST_COMPARED = 100_000
"""Characters of an answer that are searched, its end: what is concluded stands there."""


class AnswerCorrectness:
    """The agreement of the trace's answer with the expected one."""

    name = "answer_correctness"
    version = "1"
    method = Method.EXACT

    def evaluate(self, context: EvaluationContext) -> Outcome:
        trace = context.trace
        if trace.expected_answer is None:
            return not_applicable("nothing says which answer was expected")
        last = trace.turns[-1] if trace.turns else None
        if last is None or (last.output is None and last.error is None):
            return unrecorded("the answer", trace)
        result = answer_correctness((last.output or "")[-MOST_COMPARED:], trace.expected_answer)
        assert result.score is not None, "it is undefined for no answer"
        return Score(value=result.score, reason=result.reason, metadata=result.metadata)
