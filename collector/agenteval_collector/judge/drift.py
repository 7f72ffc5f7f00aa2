"""Test whether the judge scores the same traces differently than before.

There are two exact tests on pairs. McNemar's test takes the traces that changed between pass and fail (1947, "Note on
the sampling error of the difference between correlated proportions"). The sign test takes the scores that rose or
fell. The smaller p-value counts. It is doubled, because there are two tests (Bonferroni).
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from scipy.special import bdtr

from agenteval_collector.model.drift import CanaryAnswer, Drift, Flip

# Seven evaluators are tested each day. At 0.05, a judge that only wavers would be accused every third day.
LEVEL: Final = 0.01
"""Chance that an unchanged judge is said to have drifted, for one evaluator at one look."""
TOGETHER: Final = 2 * 24 * 3600 * 1_000_000_000
"""Nanoseconds before the newest answer. Answers within them count as given together with it."""
# Scores on a scale are computed, so equal ones may differ in their last digit.
_SAME: Final = 1e-9
"""Scores that differ by less than this are equal."""


def find_drifts(answers: Sequence[CanaryAnswer]) -> tuple[Drift, ...]:
    """Compare the newest answers of each evaluator with its earlier answers. Ordered by name."""
    newest = max((answer.last_at for answer in answers), default=0)
    by_time = sorted(answers, key=attrgetter("name", "last_at"))
    drifts = []
    for name, of_name in groupby(by_time, key=attrgetter("name")):
        of_traces: dict[str, list[CanaryAnswer]] = {}
        for score in of_name:
            of_traces.setdefault(score.trace_id, []).append(score)
        now = max((trace[-1] for trace in of_traces.values()), key=attrgetter("last_at"))
        recent = [trace for trace in of_traces.values() if trace[-1].last_at > newest - TOGETHER]
        pairs = [pair for scores in recent if _way(scores[-1]) == _way(now) and (pair := _pair(scores)) is not None]
        drifts.append(_drift(name, now, _alike(pairs)))
    return tuple(drifts)


class _Pair(NamedTuple):
    """A newest answer with its score `after`, the score `before`, and the answer `was` that gave the latter."""

    now: CanaryAnswer
    after: float
    before: float
    was: CanaryAnswer


def _pair(answers: Sequence[CanaryAnswer]) -> _Pair | None:
    """Return the newest answer on a trace, paired with the score to compare it with; None without one.

    That score is the first one that was asked for in the same way. For the first answer after a change of question or
    model, it is the last score before the change.
    """
    *earlier, last = answers
    if last.first_at < last.last_at:
        before, was = last.first, last
    elif earlier:
        before, was = earlier[-1].last, earlier[-1]
    else:
        return None
    return None if before is None or last.last is None else _Pair(last, last.last, before, was)


def _alike(pairs: Sequence[_Pair]) -> list[_Pair]:
    """Return the pairs that may be compared together. Their earlier answers were all asked for in one way.

    Normally this is the way of now. Right after a change of question or model, no earlier answer was asked for in that
    way. Then it is the newest way before the change.
    """
    if not pairs:
        return []
    was = max(pairs, key=lambda pair: (_way(pair.was) == _way(pair.now), pair.was.last_at)).was
    return [pair for pair in pairs if _way(pair.was) == _way(was)]


def _way(answer: CanaryAnswer) -> tuple[str, str]:
    return answer.version, answer.model


def _drift(name: str, now: CanaryAnswer, pairs: Sequence[_Pair]) -> Drift:
    higher = sum(pair.after > pair.before + _SAME for pair in pairs)
    lower = sum(pair.after < pair.before - _SAME for pair in pairs)
    flips = [
        Flip(trace_id=pair.now.trace_id, before=pair.before, after=pair.after, reason=pair.now.reason)
        for pair in pairs
        if (pair.before >= pair.now.threshold) != (pair.after >= pair.now.threshold)
    ]
    better = sum(flip.after > flip.before for flip in flips)
    p_value = min(1.0, 2 * min(two_sided(better, len(flips) - better), two_sided(higher, lower))) if pairs else None
    return Drift(
        name=name,
        version=now.version,
        model=now.model,
        was=f"{pairs[0].was.model}, version {pairs[0].was.version}" if pairs else "",
        traces=len(pairs),
        higher=higher,
        lower=lower,
        flips=tuple(sorted(flips, key=lambda flip: flip.trace_id)),
        p_value=p_value,
        drifted=p_value is not None and p_value < LEVEL,
    )


def two_sided(one: int, other: int) -> float:
    """Return the chance that differing pairs divide at least this unevenly, if both directions are equally likely."""
    # `bdtr` is the chance of at most that many successes. Doubling covers the other tail, which is the same.
    return min(1.0, 2 * float(bdtr(min(one, other), one + other, 0.5)))
