"""Test live whether a version of an agent is worse than the version before it.

In: sessions that are over, of the newest versions of each agent. Out: for each evaluator of the judge, and each kind of
finding, evidence that may be looked at at any time (`otel_agenteval.metrics.regression_evidence`). All of a version
together have the level of one: the evaluators half of it, and the kinds of findings the other half.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from threading import Lock
from typing import Final

from agenteval_collector.config.findings import KINDS
from agenteval_collector.model.regressions import JudgedBy, Regression, SeenVersion, VersionTrials
from agenteval_collector.reliability.ports import VersionStore
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.metrics.regression import as_trial, regression_evidence

LIVE_VERSIONS: Final = 3
"""Versions of an agent that are shown: those whose first traces are the newest."""
MOST_SESSIONS: Final = 5000
"""Sessions of a version that count: the last before, the first after. Where the test stops is fixed, so it holds."""
LOOK_EVERY: Final = 30.0
"""Seconds from one look at all versions to the next."""
LOOK_BUDGET: Final = 1.0
"""Seconds that one call may spend on looking; what is left is looked at by the next."""
OF_EVALUATORS: Final = 0.5
"""Share of a version's level that its evaluators have; each kind of finding has an equal part of the rest, seen or not:
which are seen is not known before."""


class Regressions:
    """The regressions of the newest versions of each agent, as of the last look. Thread-safe."""

    def __init__(self, store: VersionStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[tuple[SeenVersion, SeenVersion], list[Regression]] = {}
        self._due: deque[tuple[SeenVersion, SeenVersion]] = deque()
        self._next_look = float("-inf")
        # Two readers must not look at the same sessions side by side.
        self._lock = Lock()

    def figures(self) -> list[Regression]:
        """Return what is known, after a look at what is due. The caller's thread does the work."""
        with self._lock:
            now = self._clock.monotonic()
            with self._store.snapshot() as reader:
                if not self._due and now >= self._next_look:
                    self._next_look = now + LOOK_EVERY
                    self._due = deque(_pairs(reader.versions()))
                    self._known = {pair: self._known.get(pair, []) for pair in self._due}
                while self._due and self._clock.monotonic() < now + LOOK_BUDGET:
                    before, after = self._due[0]
                    self._known[before, after] = list(
                        _compared(
                            after,
                            reader.trials(before, until=after.first_at, most=MOST_SESSIONS),
                            reader.trials(after, until=None, most=MOST_SESSIONS),
                        )
                    )
                    self._due.popleft()
            return [each for found in self._known.values() for each in found]


def _pairs(versions: Iterable[SeenVersion]) -> list[tuple[SeenVersion, SeenVersion]]:
    """Return the newest versions of each agent, each with the one before it."""
    by_agent: dict[str, list[SeenVersion]] = {}
    for version in versions:
        by_agent.setdefault(version.agent, []).append(version)
    return [pair for each in by_agent.values() for pair in list(pairwise(each))[-LIVE_VERSIONS:]]


def _compared(version: SeenVersion, before: VersionTrials, after: VersionTrials) -> Iterator[Regression]:
    """Yield the evidence that a version is worse, by evaluator and by kind of finding."""
    for evaluator in _in_both(before.shares, after.shares):
        # Among all that judged before, not only those that judge still: that is known before the version begins.
        share = OF_EVALUATORS / len(before.shares)
        evidence = regression_evidence(*_counts(before.shares[evaluator]), *_counts(after.shares[evaluator]), share)
        yield Regression(agent=version.agent, version=version.version, evaluator=evaluator.name, evidence=evidence)
    for kind in sorted({*before.found, *after.found}) if before.sessions and after.sessions else ():
        n, m = before.sessions, after.sessions
        share = (1 - OF_EVALUATORS) / len(KINDS)
        evidence = regression_evidence(n, n - before.found.get(kind, 0), m, m - after.found.get(kind, 0), share)
        yield Regression(agent=version.agent, version=version.version, kind=kind, evidence=evidence)


def _in_both(
    before: Mapping[JudgedBy, Mapping[str, float]], after: Mapping[JudgedBy, Mapping[str, float]]
) -> Sequence[JudgedBy]:
    """Return of each evaluator the version and model that judged the most sessions after, and judged before too: with
    another judge a rate changes though the agent does not."""
    most: dict[str, JudgedBy] = {}
    for evaluator in sorted(before.keys() & after.keys(), key=lambda each: len(after[each])):
        most[evaluator.name] = evaluator
    return sorted(most.values(), key=lambda each: each.name)


def _counts(shares: Mapping[str, float]) -> tuple[int, int]:
    """Return the number of sessions, and of those among them that count as a success."""
    return len(shares), sum(as_trial(share, session_id) for session_id, share in shares.items())
