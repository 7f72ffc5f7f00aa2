"""Whether the agent repeats itself across the turns of a session.

Every answer of the trace is compared with the answers of the `WINDOW` turns before it, in this trace and in earlier
traces of the session by start time. A trace of several turns has the score of its worst one. Turns without an
answer (failed, or not recorded) take their place in the window, but are not compared.
"""

from collections.abc import Sequence

from agenteval_collector.evaluators.port import EvaluationContext, unanswered
from otel_agenteval.metrics import LoopText, MetricResult, loop_score
from otel_agenteval.metrics.loops import DEFAULT_WINDOW as WINDOW
from otel_agenteval.outcome import Method, Outcome, Score, Status, Unscored


class LoopDetection:
    """1 - the highest cosine x Jaccard with a recent answer (PandaProbe, "Loop Detection")."""

    name = "loop_detection"
    version = "1"
    method = Method.EMBEDDING
    threshold = 0.5

    def evaluate(self, context: EvaluationContext) -> Outcome:
        trace = context.trace
        if not any(context.answers):
            return unanswered(trace)
        return repetition(context.answers, context.previous)


def repetition(answers: Sequence[LoopText | None], previous: Sequence[LoopText | None]) -> Outcome:
    """The outcome for a trace with these `answers` after the `previous` ones of its session, oldest first."""
    said = list(previous[-WINDOW:])
    worst: MetricResult | None = None
    for answer in answers:
        result = loop_score(answer, said, window=WINDOW)
        if result.evaluated and (worst is None or (result.score or 0.0) < (worst.score or 0.0)):
            worst = result
        said.append(answer)
    if worst is None or worst.score is None:
        return Unscored(status=Status.NOT_APPLICABLE, reason="no earlier answer in the session to compare with")
    return Score(value=worst.score, reason=worst.reason, metadata=worst.metadata)
