"""Find answers that restate an earlier answer of the session although the question is another one."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from agenteval_collector.model.turn_summary import TurnSummary
from otel_agenteval.metrics.loops import DEFAULT_WINDOW as WINDOW
from otel_agenteval.metrics.loops import loop_score
from otel_agenteval.outcome import Failure, Outcome, Score

THRESHOLD: Final = 0.5
"""The `loop_detection` score below which an answer restates another one."""


class Restatement(NamedTuple):
    """The second restatement in a row.

    Turn number `turn` of the trace restates the answer of `back` turns before, by `score`. `doubt` says what is in
    doubt, if anything.
    """

    turn: int
    score: float
    back: int
    doubt: str | None


def repeated_answer(previous: Sequence[TurnSummary], turns: Sequence[TurnSummary]) -> Restatement | None:
    """Return the first of `turns` that is a repeated answer. `previous` are the session's turns before, oldest first.

    An answer is repeated if it and the answer before both restate an answer to another question. It must also bring
    no new successful call, number, id or word of the user's. The same words three times in a row are always a repeated
    answer, but in doubt if they bring something new. A repeated answer is also in doubt if a question was not
    recorded, the user may have asked for news, or the answer is brief.
    """
    all_turns = [*previous, *turns]
    for at in range(len(previous), len(all_turns)):
        repetition = _restates(all_turns, at)
        if repetition is None or _restates(all_turns, at - 1) is None:
            continue
        turn = all_turns[at].digests
        before = [earlier.digests for earlier in all_turns[max(0, at - WINDOW) : at]]
        is_new = turn.brought - frozenset().union(*(earlier.brought for earlier in before))
        is_new |= turn.taken_up - frozenset().union(*(earlier.told for earlier in before))
        is_verbatim = at >= 2 and turn.words is not None and turn.words == before[-1].words == before[-2].words
        if is_new and not is_verbatim:
            continue
        doubt = "each came with something new" if is_new else None
        if before[-1].asked is None or turn.asked is None:
            doubt = "what it was asked is not recorded"
        if before[-1].may_ask_for_news and turn.may_ask_for_news:
            doubt = "the user may have asked for news, and there was none"
        if turn.is_brief:
            doubt = "so brief an answer may be right each time"
        return Restatement(at - len(previous), *repetition, doubt)
    return None


def may_restate(compared: Outcome) -> bool:
    """Return whether a trace with this outcome of loop_detection may have a repeated answer.

    The outcome is the lowest score of its answers in the same window.
    """
    return isinstance(compared, Failure) or (isinstance(compared, Score) and compared.value < THRESHOLD)


def _restates(turns: Sequence[TurnSummary], at: int) -> tuple[float, int] | None:
    """Return the score by which answer `at` restates an earlier one, and how many turns back that one is.

    Return None if it restates none. An answer may be the same if the user has asked the same before.
    """
    if at < 1:
        return None
    turn, first = turns[at], max(0, at - WINDOW)
    best = None
    for earlier in range(first, at):
        result = loop_score(turn.answer, [turns[earlier].answer])
        if result.evaluated and result.score is not None and result.score < (best[0] if best else THRESHOLD):
            best = result.score, at - earlier
    # Last, because it takes the digests.
    if best is None or (asked := turn.digests.asked) is None:
        return best
    return None if any(asked == earlier.digests.asked for earlier in turns[first:at]) else best
