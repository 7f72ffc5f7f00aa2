"""How sure of itself the agent was, by its words and ways.

Hedging is the share of the answers' sentences with a hedge in them ("I think", "might", "it seems"). An incident is
a retry with identical arguments that failed again, a plan that was given up for another, or a turn in which the agent
owns up to have contradicted itself ("I was wrong", "sorry for the confusion"). Contradictions that the agent does not
notice take a judge. Words are known in English only: answers in other languages are not scored.
"""

from collections.abc import Iterator

from agenteval_collector.evaluators import phrases
from agenteval_collector.evaluators.port import EvaluationContext, unanswered
from agenteval_collector.evaluators.reasons import MAX_NAMED, not_applicable, quote
from agenteval_collector.evaluators.repetition import Vain, calls_in_vain
from otel_agenteval.model import Trace, Turn
from otel_agenteval.outcome import Method, Outcome, Score

INCIDENT = 0.8
"""What is left of the score after an incident."""


class Confidence:
    """(1 - hedged sentences / sentences) x 0.8 ^ incidents."""

    name = "confidence"
    version = "embedded-1"
    method = Method.HEURISTIC

    def evaluate(self, context: EvaluationContext) -> Outcome:
        trace = context.trace
        answers = [phrases.plain(turn.output) for turn in trace.turns if turn.output and turn.output.strip()]
        if not answers:
            return unanswered(trace)
        if not all(map(phrases.is_english, answers)):
            return not_applicable("an answer is not in English, in which alone hedges are known; takes a judge")
        said = [sentence for answer in answers for sentence in phrases.sentences(answer)]
        hedged = [match for match in map(phrases.HEDGE.search, said) if match]
        incidents = list(_incidents(trace))
        evidence = [*(f'"{quote(match.string)}"' for match in hedged), *incidents]
        more = f"; and {len(evidence) - MAX_NAMED} more" if len(evidence) > MAX_NAMED else ""
        return Score(
            value=(1 - len(hedged) / max(1, len(said))) * INCIDENT ** len(incidents),
            reason="; ".join(evidence[:MAX_NAMED]) + more if evidence else "no hedge, no retry, no plan given up",
            metadata={"sentences": len(said), "hedged": len(hedged), "incidents": len(incidents)},
        )


def _incidents(trace: Trace) -> Iterator[str]:
    calls = trace.tool_calls
    for index, why in calls_in_vain(calls):
        if why is Vain.RETRIED:
            yield f"call {index + 1}, {quote(calls[index].name)}, {why}"
    for turn in trace.turns:
        yield from _admissions(turn)


def _admissions(turn: Turn) -> Iterator[str]:
    for text in turn.plan:
        if match := phrases.ABANDONED_PLAN.search(phrases.plain(text)):
            yield f'plan given up: "{match[0]}"'
    if turn.output and (match := phrases.SELF_CORRECTION.search(phrases.plain(turn.output))):
        yield f'the agent corrects itself: "{match[0]}"'
