"""What the traces with a problem have in common, and others of the agent do not.

A session counts once, because its traces are alike.
"""

from collections import Counter
from collections.abc import Iterable
from math import comb
from typing import Final

from agenteval_collector.model.traits import Common, CommonTrait, TracedTraits, Trait

LEVEL: Final = 0.05
"""The chance that anything stands out among traits that have nothing to do with the problem."""
MOST_SHOWN: Final = 12
HALF: Final = 0.5
"""The share of sessions from which on a trait is shown, whether it stands out or not."""


def common_traits(with_problem: Iterable[TracedTraits], without: Iterable[TracedTraits]) -> Common:
    """Return what most of the sessions with a problem have, or more of them than of the others; first what stands out.

    The test is Fisher's exact one, one-sided, at `LEVEL` over all traits together (Bonferroni).
    """
    those, others = _by_session(with_problem), _by_session(without)
    others = {session_id: traits for session_id, traits in others.items() if session_id not in those}
    n, m = len(those), len(others)
    counts, other_counts = (Counter(trait for each in group.values() for trait in each) for group in (those, others))
    found = []
    for trait, count in counts.items():
        other = other_counts[trait]
        stands_out = _chance(count, n, other, m) < LEVEL / len(counts)
        # What all have tells nothing, unless there are no others to say so.
        if stands_out or (count >= HALF * n and (not m or count / n > other / m)):
            found.append(CommonTrait(trait, count, other, stands_out))
    found.sort(key=lambda each: (not each.stands_out, each.others / max(1, m) - each.sessions / n, each.trait))
    return Common(n, m, found[:MOST_SHOWN])


def _by_session(traces: Iterable[TracedTraits]) -> dict[str, frozenset[Trait]]:
    found: dict[str, frozenset[Trait]] = {}
    for trace in traces:
        found[trace.session_id] = found.get(trace.session_id, frozenset()) | trace.traits
    return found


def _chance(count: int, n: int, other: int, m: int) -> float:
    """Return the chance of `count` or more of `n`, if `count + other` were spread at random over `n + m`."""
    total = count + other
    ways = sum(comb(n, k) * comb(m, total - k) for k in range(count, min(n, total) + 1))
    return ways / comb(n + m, total)
