"""Whether the judge says something else than before of the same traces.

Two exact tests on pairs: McNemar's on those that passed and fail now, or the other way round (1947, "Note on the
sampling error of the difference between correlated proportions"), and the sign test on scores that rose or fell. The
smaller p-value counts, twice, as there are two (Bonferroni).
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from scipy.stats import binomtest

from agenteval_collector.model.drift import CanaryAnswer, Drift, Flip

LEVEL: Final = 0.01
"""Chance that a judge that did not change is said to have drifted, for one evaluator at one look."""
TOGETHER: Final = 2 * 24 * 3600 * 1_000_000_000
"""Nanoseconds before the newest answer within which others count as given with it."""
_SAME: Final = 1e-9
"""Scores that are less apart are equal."""


def find_drifts(answers: Sequence[CanaryAnswer]) -> tuple[Drift, ...]:
    """Compare the newest answers of each evaluator with those before, by name."""
    newest = max((each.last_at for each in answers), default=0)
    by_trace = sorted(answers, key=attrgetter("name", "trace_id", "last_at"))
    found = []
    for name, of_name in groupby(by_trace, key=attrgetter("name")):
        pairs, now = [], None
        for _, of_trace in groupby(of_name, key=attrgetter("trace_id")):
            *earlier, last = of_trace
            if now is None or last.last_at > now.last_at:
                now = last
            pair = _pair(last, earlier)
            if pair is not None and last.last_at > newest - TOGETHER:
                pairs.append(pair)
        if now is not None:
            found.append(_drift(name, now, pairs))
    return tuple(found)


def _pair(last: CanaryAnswer, earlier: Sequence[CanaryAnswer]) -> tuple[CanaryAnswer, float, float, str] | None:
    """Return the newest score with the one to compare it with, and how that was asked for.

    That is the first one that was asked for in the same way; for the first after a change, the last one before it.
    """
    if last.first_at < last.last_at:
        before, was = last.first, last
    elif earlier:
        before, was = earlier[-1].last, earlier[-1]
    else:
        return None
    if before is None or last.last is None:
        return None
    return last, before, last.last, f"{was.model}, version {was.version}"


def _drift(name: str, now: CanaryAnswer, pairs: Sequence[tuple[CanaryAnswer, float, float, str]]) -> Drift:
    higher = sum(after > before + _SAME for _, before, after, _ in pairs)
    lower = sum(after < before - _SAME for _, before, after, _ in pairs)
    flips = [
        Flip(trace_id=each.trace_id, before=before, after=after, reason=each.reason)
        for each, before, after, _ in pairs
        if (before >= each.threshold) != (after >= each.threshold)
    ]
    better = sum(flip.after > flip.before for flip in flips)
    p_value = min(1.0, 2 * min(_two_sided(better, len(flips) - better), _two_sided(higher, lower))) if pairs else None
    return Drift(
        name=name,
        version=now.version,
        model=now.model,
        was=", ".join(_distinct(was for *_, was in pairs)),
        traces=len(pairs),
        higher=higher,
        lower=lower,
        flips=tuple(sorted(flips, key=lambda flip: flip.trace_id)),
        p_value=p_value,
        drifted=p_value is not None and p_value < LEVEL,
    )


def _two_sided(one: int, other: int) -> float:
    return float(binomtest(one, one + other).pvalue) if one + other else 1.0


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
