"""Coherence: the answer is about the question, measured by the distance of their embeddings.

The compared texts are messages: the input of the trace's first turn and the output of its last turn. Tool calls,
intermediate replies and JSON around messages do not count.
"""

from agenteval_collector.evaluation.evaluators.ports import EvaluationContext, not_applicable, unanswered, unasked
from otel_agenteval.metrics import coherence
from otel_agenteval.outcome import Method, Outcome, Score


class Coherence:
    """1 - cosine distance of input and output (PandaProbe, "Coherence"). Rough with static embeddings."""

    name = "coherence"
    version = "1"
    method = Method.EMBEDDING

    def evaluate(self, context: EvaluationContext) -> Outcome:
        trace = context.trace
        if not trace.turns or not trace.output:
            return unanswered(trace)
        if trace.input is None:
            return unasked(trace)
        if not trace.input:
            return not_applicable("the user's input is empty")
        result = coherence(trace.input, trace.output, context.vector(trace.input), context.vector(trace.output))
        if result.score is None:
            return not_applicable(result.reason)
        return Score(value=result.score, reason=result.reason, metadata=result.metadata)
