"""The rates at which the versions of agents pass each judged evaluator, computed again only when something changed.

Labels are drawn at random from what the judge passes and from what it fails, each apart. So the chance of a trace to
be labelled is the share of labelled ones among those of which the judge said the same.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from agenteval_collector.judge.quality.drawing import Draw, draw
from agenteval_collector.judge.quality.ports import JudgedRecords, JudgedSnapshot
from agenteval_collector.model.cursors import Page, behind, encode_cursor
from agenteval_collector.model.quality import JudgedScore, Rated, RatedChange, VersionRate
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.lru import Recent
from otel_agenteval.metrics import JudgedTrace, PassRate, pass_rate

LIVE_VERSIONS: Final = 3
"""Versions of an agent that gauges show: those that were judged last."""
SCRAPE_BUDGET: Final = 0.5
"""Seconds that a scrape may spend on computing rates again."""
MOST_KNOWN: Final = 2000
"""Rates that are kept, those that were asked for last."""


@dataclass(frozen=True, slots=True)
class _Known:
    change: RatedChange
    found: VersionRate
    at: float


class PassRates:
    """Rates of passing over judged traces. Thread-safe; raises Unavailable."""

    def __init__(self, records: JudgedRecords, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._known: Recent[Rated, _Known] = Recent(MOST_KNOWN)
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
        """Return at most `limit` rates, those with the newest judgement first; None is any. Raises InvalidRequest for
        a cursor of another listing."""
        asked = (agent, version, name)
        with self._lock, self._records.snapshot() as records:
            following = behind(records.rated(), cursor, lambda each: each.rated)
            wanted = [each for each in following if _matches(each.rated, asked)]
            items = [self._current(records, each) for each in wanted[:limit]]
        return Page(items=items, next_cursor=encode_cursor(items[-1].rated) if len(wanted) > limit else None)

    def rated(self) -> list[Rated]:
        """Return everything that has a rate, that with the newest judgement first."""
        with self._records.snapshot() as records:
            return [each.rated for each in records.rated()]

    def next_draw(
        self, name: str, *, agent: str | None = None, version: str | None = None, skip: Collection[str] = ()
    ) -> tuple[Rated, Draw] | None:
        """Return the trace or session to be labelled next, of what was judged last where no agent or version is given;
        None where nothing is left."""
        with self._records.snapshot() as records:
            for each in records.rated():
                if _matches(each.rated, (agent, version, name)):
                    drawn = draw(records.judged(each.rated), skip=skip)
                    return None if drawn is None else (each.rated, drawn)
        return None

    def newest(self) -> list[VersionRate]:
        """Return the rates that gauges show: of each agent and evaluator the `LIVE_VERSIONS` that were judged last.

        Those that changed are computed again for `SCRAPE_BUDGET` seconds, those first that waited longest; the others
        show what they showed before, or nothing yet, until the next call.
        """
        with self._lock, self._records.snapshot() as records:
            live = _live(records.rated())
            until = self._clock.monotonic() + SCRAPE_BUDGET
            for each in sorted(live, key=self._computed_at):
                if self._clock.monotonic() < until:
                    self._current(records, each)
            return [known.found for each in live if (known := self._known.get(each.rated))]

    def _computed_at(self, change: RatedChange) -> float:
        known = self._known.get(change.rated)
        return float("-inf") if known is None else known.at

    def _current(self, records: JudgedSnapshot, change: RatedChange) -> VersionRate:
        """Return a rate as it is now."""
        known = self._known.get(change.rated)
        if known is not None and known.change == change:
            return known.found
        scores = records.judged(change.rated)
        models = tuple(dict.fromkeys(each.model for each in scores if each.model))
        found = VersionRate(change.rated, rate_of(scores), models, records.unscored(change.rated))
        self._known.put(change.rated, _Known(change, found, self._clock.monotonic()))
        return found


def rate_of(scores: Sequence[JudgedScore]) -> PassRate:
    """Return the rate at which traces pass, corrected by the labels of those that were drawn to be labelled."""
    judged = Counter(each.passed for each in scores)
    labelled = Counter(each.passed for each in scores if each.label is not None)
    # Without a label on what the judge fails, say, nothing tells how often it is wrong there.
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
