"""A live test whether a version of an agent is worse than the version before it.

The input is the sessions that are over, of the newest versions of each agent. The output is evidence for each evaluator
of the judge and for each kind of finding. It holds at any time it is looked at
(`otel_agenteval.metrics.regression_evidence`). All tests of one version together have the level of a single test: the
primary evaluator has one half of it, and the other evaluators and the kinds of findings share the other half.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from threading import Lock
from typing import Final

from agenteval_collector.config.findings import KINDS
from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.regressions import JudgedBy, Regression, SeenVersion, VersionTrials
from agenteval_collector.model.runs import LIVE_VERSIONS
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores.access import Snapshots
from agenteval_collector.stores.regressions import VersionQueries
from otel_agenteval.metrics.regression import as_trial, regression_evidence

MOST_SESSIONS: Final = 5000
"""Sessions of a version that count: its last ones in the role of the version before, its first ones as the new version.

The end of the test is fixed by this number, so the test stays valid.
"""
VERSIONS_COMPARED_EVERY: Final = 30.0
"""Seconds between two looks at all versions."""
LOOK_BUDGET: Final = 1.0
"""Seconds that one call may spend on a look. The next call goes on with the versions that are left."""
OF_PRIMARY: Final = 0.5
"""The share of a version's level that its primary evaluator has."""
OF_OTHERS: Final = 0.25
"""The share of a version's level that its other evaluators have, in equal parts."""
OF_KINDS: Final = 0.25
"""The share of a version's level that the kinds of findings have.

Each kind has an equal part, whether it is seen or not: nobody knows beforehand which are seen.
"""
PRIMARY: Final = ("goal_success", "task_completion")
"""The primary evaluator is the first of these that judged the version before, unless `judge.primary` names one."""


class Regressions:
    """Shows the regressions of the newest versions of each agent, as of the last look. Thread-safe.

    The primary evaluator is the first of `primary` that judged the version before.
    """

    def __init__(self, store: Snapshots[VersionQueries], clock: Clock, primary: Sequence[str] = PRIMARY) -> None:
        self._store = store
        self._clock = clock
        self._primary = primary
        self._known: dict[tuple[SeenVersion, SeenVersion], list[Regression]] = {}
        self._due: deque[tuple[SeenVersion, SeenVersion]] = deque()
        self._next_look = float("-inf")
        # Two callers must not look at the same sessions at the same time.
        self._lock = Lock()

    def figures(self) -> list[Regression]:
        """Look at the versions that are due, and return all known regressions. The caller's thread does the work."""
        with self._lock:
            now = self._clock.monotonic()
            with self._store.snapshot() as reader:
                if not self._due and now >= self._next_look:
                    self._next_look = now + VERSIONS_COMPARED_EVERY
                    self._due = deque(_pairs(reader.versions()))
                    self._known = {pair: self._known.get(pair, []) for pair in self._due}
                while self._due and self._clock.monotonic() < now + LOOK_BUDGET:
                    before, after = self._due[0]
                    self._known[before, after] = list(
                        _compared(
                            after,
                            reader.trials(before, until=after.first_at, most=MOST_SESSIONS),
                            reader.trials(after, until=None, most=MOST_SESSIONS),
                            self._primary,
                        )
                    )
                    # Removed last: after an error of the store the next call tries this pair again.
                    self._due.popleft()
            return [regression for regressions in self._known.values() for regression in regressions]


def _pairs(versions: Iterable[SeenVersion]) -> list[tuple[SeenVersion, SeenVersion]]:
    """Return pairs of the newest versions of each agent, by their first traces. A pair has the version before and the
    version."""
    by_agent: dict[AgentKey, list[SeenVersion]] = {}
    for version in versions:
        by_agent.setdefault(version.key, []).append(version)
    return [pair for versions in by_agent.values() for pair in list(pairwise(versions))[-LIVE_VERSIONS:]]


def _compared(
    version: SeenVersion, before: VersionTrials, after: VersionTrials, primary: Sequence[str]
) -> Iterator[Regression]:
    """Yield the evidence that a version is worse, for each evaluator and for each kind of finding."""
    # The level is split among all evaluators of the version before, as these are known before the version begins.
    # Evaluators that judge no more count, too.
    shares = _shares_of_level(before.shares, primary)
    found = partial(Regression, agent=version.agent, service=version.service, version=version.version)
    for evaluator in _in_both(before.shares, after.shares):
        share = shares[evaluator]
        evidence = regression_evidence(*_counts(before.shares[evaluator]), *_counts(after.shares[evaluator]), share)
        yield found(evaluator=evaluator.name, evidence=evidence)
    for kind in sorted({*before.found, *after.found}) if before.sessions and after.sessions else ():
        n, m = before.sessions, after.sessions
        share = OF_KINDS / len(KINDS)
        evidence = regression_evidence(n, n - before.found.get(kind, 0), m, m - after.found.get(kind, 0), share)
        yield found(kind=kind, evidence=evidence)


def _shares_of_level(evaluators: Collection[JudgedBy], names: Sequence[str]) -> dict[JudgedBy, float]:
    """Return each evaluator's share of the level. Where no primary evaluator judged, the others have its share, too."""
    primary = next((name for name in names if any(each.name == name for each in evaluators)), None)
    main = [each for each in evaluators if each.name == primary]
    others = [each for each in evaluators if each.name != primary]
    of_others = OF_OTHERS if main else OF_PRIMARY + OF_OTHERS
    return {each: OF_PRIMARY / len(main) for each in main} | {each: of_others / len(others) for each in others}


def _in_both(
    before: Mapping[JudgedBy, Mapping[str, float]], after: Mapping[JudgedBy, Mapping[str, float]]
) -> Sequence[JudgedBy]:
    """Return, for each evaluator, the version and model that judged the most sessions of the new version.

    It must have judged the version before, too: with another judge a rate changes although the agent does not.
    """
    most: dict[str, JudgedBy] = {}
    for evaluator in sorted(before.keys() & after.keys(), key=lambda name: len(after[name])):
        most[evaluator.name] = evaluator
    return sorted(most.values(), key=lambda regression: regression.name)


def _counts(shares: Mapping[str, float]) -> tuple[int, int]:
    """Return the number of sessions, and the number of those that count as a success."""
    return len(shares), sum(as_trial(share, session_id) for session_id, share in shares.items())
