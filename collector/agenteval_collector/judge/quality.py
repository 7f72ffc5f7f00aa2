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

from agenteval_collector.judge.ports import JudgedSnapshot
from agenteval_collector.judge.referrals import lot
from agenteval_collector.model.cursors import Page, behind, encode_cursor
from agenteval_collector.model.pass_rates import JudgedScore, Rated, RatedChange, VersionRate
from agenteval_collector.model.runs import LIVE_VERSIONS
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.metrics.pass_rate import JudgedTrace, PassRate, pass_rate
from otel_agenteval.outcome import SubjectKind

SCRAPE_BUDGET: Final = 0.5
"""Seconds that a scrape may spend on computing rates again."""
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
    """Return the next subject to be labelled. Return None where no more is left.

    Subjects whose ids are in `skip` are passed over. They keep their place in the order.
    """
    waiting = [each for each in scores if each.label is None and each.subject_id not in skip]
    if (score := _first(waiting)) is None:
        return None
    alike = [each for each in scores if each.passed is score.passed]
    labelled = sum(each.label is not None for each in alike)
    return Draw(
        subject=score.subject,
        trace_id=score.subject_id if score.subject is SubjectKind.TRACE else None,
        session_id=score.session_id,
        probability=(labelled + 1) / len(alike),
        judged=len(scores),
        labelled=sum(each.label is not None for each in scores),
    )


def _first(waiting: Sequence[JudgedScore]) -> JudgedScore | None:
    """Choose the first subject of one of the two verdicts. Each verdict is as likely, while both have any left."""
    heads = [
        min(alike, key=lambda each: lot(each.subject_id))
        for verdict in (True, False)
        if (alike := [each for each in waiting if each.passed is verdict])
    ]
    if not heads:
        return None
    # The verdict is chosen by a hash too, so that the same subject is drawn until it has a label.
    return heads[lot("".join(each.subject_id for each in heads))[0] % len(heads)]


@dataclass(frozen=True, slots=True)
class _Known:
    change: RatedChange
    found: VersionRate
    at: float


class PassRates:
    """Computes rates of passing over judged traces, each time on a new `snapshot`. Thread-safe; raises Unavailable."""

    def __init__(self, snapshot: Callable[[], AbstractContextManager[JudgedSnapshot]], clock: Clock) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._known: LruMap[Rated, _Known] = LruMap(MOST_KNOWN)
        # Two readers must not compute the same rate side by side.
        self._lock = Lock()

    def page(
        self,
        *,
        agent: str | None = None,
        version: str | None = None,
        name: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> Page[VersionRate]:
        """Return at most `limit` rates. The rate with the newest judgement is first.

        For `agent`, `version` and `name`, None means any. Raises InvalidRequest for a cursor of another listing.
        """
        asked = (agent, version, name)
        with self._lock, self._snapshot() as snapshot:
            following = behind(snapshot.rated(), cursor, lambda each: each.rated)
            wanted = [each for each in following if _matches(each.rated, asked)]
            items = [self._current(snapshot, each) for each in wanted[:limit]]
        return Page(items=items, next_cursor=encode_cursor(items[-1].rated) if len(wanted) > limit else None)

    def rated(self) -> list[Rated]:
        """Return everything that has a rate. The one with the newest judgement is first."""
        with self._snapshot() as snapshot:
            return [each.rated for each in snapshot.rated()]

    def next_draw(
        self, name: str, *, agent: str | None = None, version: str | None = None, skip: Collection[str] = ()
    ) -> tuple[Rated, Draw] | None:
        """Return the trace or session to be labelled next. Return None where nothing is left.

        Where no agent or version is given, it is taken from what was judged last.
        """
        with self._snapshot() as snapshot:
            for each in snapshot.rated():
                if _matches(each.rated, (agent, version, name)):
                    drawn = draw(snapshot.judged(each.rated), skip=skip)
                    return None if drawn is None else (each.rated, drawn)
        return None

    def newest(self) -> list[VersionRate]:
        """Return the rates that gauges show: of each agent and evaluator, the `LIVE_VERSIONS` that were judged last.

        Rates that have changed are computed again, for `SCRAPE_BUDGET` seconds. Those that waited longest come first.
        The other rates are returned as they were before, or left out where they were never computed, until the next
        call.
        """
        with self._lock, self._snapshot() as snapshot:
            live = _live(snapshot.rated())
            until = self._clock.monotonic() + SCRAPE_BUDGET
            for each in sorted(live, key=self._computed_at):
                if self._clock.monotonic() < until:
                    self._current(snapshot, each)
            return [known.found for each in live if (known := self._known.get(each.rated))]

    def _computed_at(self, change: RatedChange) -> float:
        known = self._known.get(change.rated)
        return float("-inf") if known is None else known.at

    def _current(self, snapshot: JudgedSnapshot, change: RatedChange) -> VersionRate:
        """Return a rate as it is now. Compute it only where it has changed."""
        known = self._known.get(change.rated)
        if known is not None and known.change == change:
            return known.found
        scores = snapshot.judged(change.rated)
        models = tuple(dict.fromkeys(each.model for each in scores if each.model))
        found = VersionRate(change.rated, rate_of(scores), models, snapshot.unscored(change.rated))
        self._known.put(change.rated, _Known(change, found, self._clock.monotonic()))
        return found


def rate_of(scores: Sequence[JudgedScore]) -> PassRate:
    """Return the rate at which traces pass, corrected by the labels of the traces that were drawn."""
    judged = Counter(each.passed for each in scores)
    labelled = Counter(each.passed for each in scores if each.label is not None)
    # Where no label is on what the judge fails, for instance, nothing shows how often it is wrong there.
    blind = [verdict for verdict in judged if not labelled[verdict]]
    if labelled and blind:
        told = pass_rate(JudgedTrace(each.session_id, each.passed) for each in scores)
        verdict = "passes" if blind[0] else "fails"
        return replace(told, labelled=labelled.total(), reason=f"nothing that the judge {verdict} has a label")
    return pass_rate(
        JudgedTrace(
            each.session_id,
            each.passed,
            each.label,
            1.0 if each.label is None else labelled[each.passed] / judged[each.passed],
        )
        for each in scores
    )


def _matches(rated: Rated, asked: Sequence[str | None]) -> bool:
    return all(part in (None, own) for own, part in zip(rated, asked, strict=True))


def _live(changes: Sequence[RatedChange]) -> list[RatedChange]:
    seen: Counter[tuple[str | None, str]] = Counter()
    live = []
    for each in changes:
        key = each.rated.agent, each.rated.name
        seen[key] += 1
        if seen[key] <= LIVE_VERSIONS:
            live.append(each)
    return live
