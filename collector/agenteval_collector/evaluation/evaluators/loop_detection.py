"""Loop detection: the agent does not repeat itself across the turns of a session.

Every answer of the trace is compared with the answers of the `WINDOW` turns before it. These turns are in this trace
and in earlier traces of the session, ordered by start time. A trace of several turns has the score of its worst turn.
Turns without an answer (failed, or not recorded) take their place in the window, but are not compared.
"""

from collections.abc import Sequence
from typing import Any

from agenteval_collector.evaluation.evaluators.ports import EvaluationContext, not_applicable, unanswered
from otel_agenteval.metrics import MetricResult
from otel_agenteval.metrics.loops import DEFAULT_WINDOW as WINDOW
from otel_agenteval.metrics.loops import LoopText, loop_score
from otel_agenteval.outcome import Method, Outcome, Score


class LoopDetection:
    """1 - the highest cosine x Jaccard with a recent answer (PandaProbe, "Loop Detection")."""

    name = "loop_detection"
    version = "1"
    method = Method.EMBEDDING

    def evaluate(self, context: EvaluationContext) -> Outcome:
        trace = context.trace
        if not any(context.answers):
            return unanswered(trace)
        return repetition(context.answers, context.previous)


def repetition(answers: Sequence[LoopText | None], previous: Sequence[LoopText | None]) -> Outcome:
    """Return the outcome for a trace with these `answers`.

    `previous` are the answers before it in its session, oldest first.
    """
    turns_before = list(previous[-WINDOW:])
    worst: Score | None = None
    for answer in answers:
        result = loop_score(answer, turns_before, window=WINDOW)
        if result.score is not None and result.evaluated and (worst is None or result.score < worst.value):
            worst = Score(value=result.score, reason=_reason(result, len(turns_before)), metadata=result.metadata)
        turns_before.append(answer)
    return worst or not_applicable("no earlier answer in the session to compare with")


def _reason(result: MetricResult, turn: int) -> str:
    """Say how many turns back the closest answer is. `turn` is the position of the answer that was compared."""
    comparisons: Any = result.metadata["comparisons"]
    closest = max(comparisons, key=lambda comparison: (comparison["hybrid_score"], comparison["trace_index"]))
    back = turn - closest["trace_index"]
    earlier = "the answer before" if back == 1 else f"the answer {back} turns before"
    return f"closest to {earlier}: repetition {closest['hybrid_score']:.4f}"
