"""confidence: were the agent's actions decisive, appropriate and well founded?"""

from typing import Final

from agenteval_collector.judging.questions.scoring import ScoringQuestion, one_score
from agenteval_collector.judging.transcript import GUIDE
from otel_agenteval.model import Json

NAME: Final = "confidence"
VERSION: Final = "1"

_INSTRUCTIONS: Final = f"""\
Say how decisive and well founded an agent's actions were in the whole transcript.
- Decisiveness: did it act without needless hesitation, and without steps that contradict each other?
- Appropriateness: did its actions serve what the user wanted?
- Consistency: did it hold one strategy that makes sense?
- Signs against it: hedging words, contradictions, needless retries, vague answers, the same tool called with the same \
arguments again, strategies given up.
Guide
- 1: decisive throughout
- 0.75: little hesitation, or a strategy a bit below the best
- 0.5: noticeable indecision or inconsistency
- 0.25: much uncertainty, several approaches given up
- 0: uncertain throughout, or actions that contradict each other
Asking the user for something that only the user knows, and refusing what is not allowed, are no hesitation.

{GUIDE}"""


def confidence(transcript: list[Json], threshold: float) -> ScoringQuestion:
    """The question; it needs nothing but the transcript."""
    return one_score(
        evaluator="confidence",
        threshold=threshold,
        name=NAME,
        version=VERSION,
        instructions=_INSTRUCTIONS,
        data={"transcript": transcript},
        key="confidence",
    )
