"""Compute the rates at which traces pass each judged evaluator, and draw what a person should label next.

A rate is that of one version of an agent. The draw is random, separately among what the judge passes and what it
fails. Its order is that of a hash of the id. So the labelled traces of a verdict are a random sample of it, and a
trace is drawn again until it has a label. The chance of a trace to be labelled is then the share of labelled traces
among those with the same verdict. The verdict that comes next is random too, because a person must not be able to
guess it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from agenteval_collector.figures.second_opinion import SecondOpinions
from agenteval_collector.model.cursors import Page, behind, encode_cursor
from agenteval_collector.model.judge_jobs import lot
from agenteval_collector.model.pass_rates import JudgedScore, JudgeRate, Rated, RatedChange, VersionRate
from agenteval_collector.model.runs import LIVE_VERSIONS
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores.snapshot import Snapshot
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.metrics.pass_rate import JudgedTrace, PassRate, pass_rate
from otel_agenteval.outcome import SubjectKind

SCRAPE_BUDGET: Final = 0.5
"""Seconds that a scrape may spend on computing rates again."""
PAGE_BUDGET: Final = 2.0
"""Seconds that a page may spend on second opinions. Those that are left are computed for the next one."""
MOST_KNOWN: Final = 2000
"""The number of rates that are kept. They are the rates that were asked for last."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A trace, or a whole session, that is to be labelled. A session has no `trace_id`.

    `probability` is the share of subjects with this verdict that are labelled, once this one has its label.
    """

    subject: SubjectKind
    trace_id: str | None
    session_id: str
    probability: float
    judged: int
    labelled: int


def draw(scores: Sequence[JudgedScore], *, skip: Collection[str] = ()) -> Draw | None:
    """Return the next subject to be labelled. Return None if no more is left.

    Subjects whose ids are in `skip` are passed over. They keep their place in the order.
    """
    waiting = [score for score in scores if score.label is None and score.subject_id not in skip]
    if (score := _first(waiting)) is None:
        return None
    alike = [other for other in scores if other.passed is score.passed]
    labelled = sum(other.label is not None for other in alike)
    return Draw(
        subject=score.subject,
        trace_id=score.subject_id if score.subject is SubjectKind.TRACE else None,
        session_id=score.session_id,
        probability=(labelled + 1) / len(alike),
        judged=len(scores),
        labelled=sum(score.label is not None for score in scores),
    )


def _first(waiting: Sequence[JudgedScore]) -> JudgedScore | None:
    """Choose the first subject of one of the two verdicts. Each verdict is as likely, while both have any left."""
    heads = [
        min(alike, key=lambda other: lot(other.subject_id))
        for verdict in (True, False)
        if (alike := [other for other in waiting if other.passed is verdict])
    ]
    if not heads:
        return None
    # The verdict is chosen by a hash too, so that the same subject is drawn until it has a label.
    return heads[lot("".join(head.subject_id for head in heads))[0] % len(heads)]


@dataclass(frozen=True, slots=True)
class _Known:
    change: RatedChange
    found: VersionRate
    at: float


class PassRates:
    """Computes rates of passing over judged traces, each time on a new `snapshot`. Thread-safe; raises Unavailable."""

    def __init__(self, snapshot: Callable[[], AbstractContextManager[Snapshot]], clock: Clock) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._known: LruMap[Rated, _Known] = LruMap(MOST_KNOWN)
        self._opinions = SecondOpinions()
        self._by_judge: LruMap[Rated, tuple[RatedChange, JudgeRate | None]] = LruMap(MOST_KNOWN)
        # Two readers must not compute the same rate side by side.
        self._lock = Lock()

    def page(
        self,
        *,
        agent: str | None = None,
        service: str | None = None,
        version: str | None = None,
        name: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> Page[VersionRate]:
        """Return at most `limit` rates. The rate with the newest judgement is first.

        For `agent`, `service`, `version` and `name`, None means any. Raises InvalidRequest for a cursor of another
        listing.
        """
        key = (agent, service, version, name)
        with self._lock, self._snapshot() as snapshot:
            following = behind(snapshot.rated(), cursor, lambda item: item.rated)
            wanted = [item for item in following if _matches(item.rated, key)]
            until = self._clock.monotonic() + PAGE_BUDGET
            items = [self._with_opinion(snapshot, item, until) for item in wanted[:limit]]
        return Page(items=items, next_cursor=encode_cursor(items[-1].rated) if len(wanted) > limit else None)

    def rated(self) -> list[Rated]:
        """Return everything that has a rate. The one with the newest judgement is first."""
        with self._snapshot() as snapshot:
            return [item.rated for item in snapshot.rated()]

    def next_draw(
        self,
        name: str,
        *,
        agent: str | None = None,
        service: str | None = None,
        version: str | None = None,
        skip: Collection[str] = (),
    ) -> tuple[Rated, Draw] | None:
        """Return the trace or session to be labelled next. Return None if nothing is left.

        If no agent, service or version is given, it is taken from what was judged last.
        """
        with self._snapshot() as snapshot:
            for item in snapshot.rated():
                if _matches(item.rated, (agent, service, version, name)):
                    drawn = draw(snapshot.judged(item.rated), skip=skip)
                    return None if drawn is None else (item.rated, drawn)
        return None

    def newest(self) -> list[VersionRate]:
        """Return the rates that gauges show: of each agent and evaluator, the `LIVE_VERSIONS` that were judged last.

        Rates that have changed are computed again, for `SCRAPE_BUDGET` seconds. Those that waited longest come first.
        The other rates are returned as they were before, or left out if they were never computed, until the next
        call.
        """
        with self._lock, self._snapshot() as snapshot:
            live = _live(snapshot.rated())
            until = self._clock.monotonic() + SCRAPE_BUDGET
            for item in sorted(live, key=self._computed_at):
                if self._clock.monotonic() < until:
                    self._current(snapshot, item)
            return [entry.found for item in live if (entry := self._known.get(item.rated))]

    def _with_opinion(self, snapshot: Snapshot, change: RatedChange, until: float) -> VersionRate:
        """Return a rate as it is now, with that of the judge. After `until`, an older one of the judge is as good."""
        known = self._by_judge.get(change.rated)
        if (known is None or known[0] != change) and self._clock.monotonic() < until:
            known = change, self._opinions.judge_rate(snapshot, change.rated)
            self._by_judge.put(change.rated, known)
        return replace(self._current(snapshot, change), by_judge=None if known is None else known[1])

    def _computed_at(self, change: RatedChange) -> float:
        entry = self._known.get(change.rated)
        return float("-inf") if entry is None else entry.at

    def _current(self, snapshot: Snapshot, change: RatedChange) -> VersionRate:
        """Return a rate as it is now. Compute it only if it has changed."""
        entry = self._known.get(change.rated)
        if entry is not None and entry.change == change:
            return entry.found
        scores = snapshot.judged(change.rated)
        models = tuple(dict.fromkeys(score.model for score in scores if score.model))
        rate = VersionRate(change.rated, rate_of(scores), models, snapshot.unscored(change.rated))
        self._known.put(change.rated, _Known(change, rate, self._clock.monotonic()))
        return rate


def rate_of(scores: Sequence[JudgedScore]) -> PassRate:
    """Return the rate at which traces pass, corrected by the labels of the traces that were drawn."""
    judged = Counter(score.passed for score in scores)
    labelled = Counter(score.passed for score in scores if score.label is not None)
    # If no label is on what the judge fails, for instance, nothing shows how often it is wrong there.
    blind = [verdict for verdict in judged if not labelled[verdict]]
    if labelled and blind:
        rate = pass_rate(JudgedTrace(score.session_id, score.passed) for score in scores)
        verdict = "passes" if blind[0] else "fails"
        return replace(rate, labelled=labelled.total(), reason=f"nothing that the judge {verdict} has a label")
    return pass_rate(
        JudgedTrace(
            score.session_id,
            score.passed,
            score.label,
            1.0 if score.label is None else labelled[score.passed] / judged[score.passed],
        )
        for score in scores
    )


def _matches(rated: Rated, filters: Sequence[str | None]) -> bool:
    return all(chosen in (None, own) for own, chosen in zip(rated, filters, strict=True))


def _live(changes: Sequence[RatedChange]) -> list[RatedChange]:
    counts: Counter[tuple[str | None, str | None, str]] = Counter()
    live = []
    for change in changes:
        key = change.rated.agent, change.rated.service, change.rated.name
        counts[key] += 1
        if counts[key] <= LIVE_VERSIONS:
            live.append(change)
    return live
