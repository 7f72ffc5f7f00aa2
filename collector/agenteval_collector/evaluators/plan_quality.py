"""Whether a plan is well formed; whether it is a good one takes a judge.

A step is at fault where it is blank, has a single word of content, or says the same as a step before it, and where
it comes after the 20th: a plan that long is no overview. Only the last plan of a turn counts.
"""

from collections.abc import Iterator, Sequence

from agenteval_collector.evaluators.plans import content_words, no_plan, stated_plan
from agenteval_collector.evaluators.port import EvaluationContext
from agenteval_collector.evaluators.reasons import MAX_NAMED, quote
from otel_agenteval.outcome import Method, Outcome, Score

LONG = 20
"""Steps of a plan that can still be overlooked."""


class PlanQuality:
    """Steps without a fault / steps, over the plans of all turns."""

    name = "plan_quality"
    version = "embedded-1"
    method = Method.HEURISTIC

    def evaluate(self, context: EvaluationContext) -> Outcome:
        plans = [plan for turn in context.trace.turns if (plan := stated_plan(turn))]
        if not plans:
            return no_plan(context.trace)
        faults = [fault for plan in plans for fault in _faults(plan)]
        total = sum(map(len, plans))
        return Score(
            value=1 - len(faults) / total,
            reason="; ".join(faults[:MAX_NAMED]) if faults else "no step is blank, vague, said twice, or one too many",
            metadata={"steps": total, "at_fault": len(faults)},
        )


def _faults(plan: Sequence[str]) -> Iterator[str]:
    """One for each step that has any."""
    said: set[frozenset[str]] = set()
    for number, step in enumerate(plan, 1):
        words = content_words(step)
        if number > LONG:
            yield f"step {number} is one too many"
        elif not step:
            yield f"step {number} is blank"
        elif len(words) < 2:
            yield f'step {number} is vague: "{quote(step)}"'
        elif words in said:
            yield f'step {number} says the same as one before it: "{quote(step)}"'
        said.add(words)
