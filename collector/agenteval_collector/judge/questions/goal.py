"""goal_success: what did the user want of the session, was it reached, and where did it fail?"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agenteval_collector.judge.ports import Question, Reading, Reply
from agenteval_collector.judge.prompt.replies import REASON, SCORE, TEXT, record, whole
from agenteval_collector.judge.prompt.transcript import GUIDE
from agenteval_collector.judge.questions.scoring import by_median
from agenteval_collector.model.judging import FAILED_TURN, GOAL, GOAL_SUCCESS
from otel_agenteval.model import Json
from otel_agenteval.outcome import Score

VERSION: Final = "1"

_INSTRUCTIONS: Final = """\
The transcript is a whole session of a user with an agent. Say whether the user got what they wanted of it.
- goal: what the user wanted of the session, in one or two sentences, with every condition that the user set; as it \
was at last, where the user changed it
- reason: why it was reached or was not
- failed_turn: the number of the turn in which it went wrong first, 0 where it did not
- score: 1: reached in full. 0.5: in part. 0: not at all, or something else was done. A claim of the agent that no \
action bears out does not count. To refuse rightly what must not be done reaches what can be reached.

"""


def goal_question(transcript: list[Json], turns: int, threshold: float) -> Question:
    """Make the question about a session of so many turns."""
    return Question(
        name=GOAL_SUCCESS,
        version=VERSION,
        instructions=_INSTRUCTIONS + GUIDE,
        data={"transcript": transcript},
        schema=record(
            goal=TEXT, reason=REASON, failed_turn=whole(0, turns, f"A turn from 1 to {turns}; 0: none."), score=SCORE
        ),
        readings=[_reading(threshold)],
    )


def _reading(threshold: float) -> Reading:
    score = by_median(GOAL_SUCCESS, threshold)

    def conclude(replies: Sequence[Reply]) -> Score:
        found = score.conclude(replies)
        nearest = min(replies, key=lambda reply: abs(score.value(reply) - found.value))
        facts: dict[str, Json] = {GOAL: nearest[GOAL], FAILED_TURN: int(nearest[FAILED_TURN]) or None}
        return replace(found, metadata=facts)

    return replace(score, conclude=conclude)
