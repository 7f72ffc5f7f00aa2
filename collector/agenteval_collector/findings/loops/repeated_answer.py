"""Find answers that restate an earlier answer of the session although the question is another one."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from agenteval_collector.model.turn_summary import TurnSummary
from otel_agenteval.metrics.loops import DEFAULT_WINDOW as WINDOW
from otel_agenteval.metrics.loops import loop_score

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

    An answer is repeated where it and the answer before both restate an answer to another question. It must also bring
    no new successful call, number or id. The same words three times in a row are always a repeated answer, but in
    doubt if they bring something new. A repeated answer is also in doubt where a question was not recorded or the
    answer is brief.
    """
    said = [*previous, *turns]
    for at in range(len(previous), len(said)):
        found = _restates(said, at)
        if found is None or _restates(said, at - 1) is None:
            continue
        is_new = said[at].brought - frozenset().union(*(each.brought for each in said[max(0, at - WINDOW) : at]))
        is_verbatim = (
            at >= 2 and said[at].words is not None and said[at].words == said[at - 1].words == said[at - 2].words
        )
        if is_new and not is_verbatim:
            continue
        doubt = "each came with something new" if is_new else None
        if any(each.asked is None for each in said[at - 1 : at + 1]):
            doubt = "what it was asked is not recorded"
        if said[at].is_brief:
            doubt = "so brief an answer may be right each time"
        return Restatement(at - len(previous), *found, doubt)
    return None


def _restates(said: Sequence[TurnSummary], at: int) -> tuple[float, int] | None:
    """Return the score by which answer `at` restates an earlier one, and how many turns back that one is.

    Return None where it restates none. An answer may be the same where the question is the same.
    """
    if at < 1:
        return None
    turn = said[at]
    best = None
    for earlier in range(max(0, at - WINDOW), at):
        if turn.asked is not None and turn.asked == said[earlier].asked:
            continue
        result = loop_score(turn.answer, [said[earlier].answer])
        if result.evaluated and result.score is not None and result.score < (best[0] if best else THRESHOLD):
            best = result.score, at - earlier
    return best
