"""A watch over an agent's arrivals: whether it has been silent for longer than chance and its own weeks explain.

The sessions that would have come are counted by hour of the week, as the least of what the last weeks had there. So
nights, weekends and feast days that came before are no silence.
"""

from dataclasses import asdict, dataclass, field
from math import log
from statistics import fmean
from typing import Any, Final

from agenteval_collector.alarms.rates import FALSE_ALARMS, HOUR

WEEK: Final = 7 * 24
"""Hours."""
WEEKS: Final = 4
"""Weeks that are remembered."""
LEARNT_WEEKS: Final = 2
"""Weeks of an hour of the week without which nothing is expected there."""
BESIDE: Final = (-2, -1, 0, 1, 2)
"""The hours that an hour is like, itself among them: one hour of a quiet agent has no session by chance."""
LONGER: Final = 1.5
"""Tell of a silence only if it is this many times as long as the longest one so far."""
WATCHED_GAP: Final = 300 * 1_000_000_000
"""Nanoseconds between two looks. After more the collector was away, and what came then is not known."""
MOST_SPREAD: Final = 20.0
"""The most that the spread of arrivals raises the bar."""


@dataclass(slots=True)
class SilenceWatch:
    """The sessions that came, by hour of the week (the last weeks, newest last), and those that should have come since
    the last one: `missed`. `longest` is the most that were missed without an alarm. `expected` are those that come at
    least in the present hour, and `by_chance` those that are missed by chance; both follow from the weeks."""

    hour: int
    looked_at: int
    weeks: list[list[int]] = field(default_factory=lambda: [[] for _ in range(WEEK)])
    came: int = 0
    whole: bool = False
    missed: float = 0.0
    longest: float = 0.0
    expected: float = 0.0
    by_chance: float = 0.0
    is_alarm: bool = False

    def arrive(self, is_new_session: bool) -> None:
        """Note a trace. It ends a silence."""
        self.came += is_new_session
        if not self.is_alarm:
            self.longest = max(self.longest, self.missed)
        self.missed, self.is_alarm = 0.0, False

    def look(self, now: int) -> None:
        """Add what should have come since the last look."""
        hour, gap = now // HOUR, now - self.looked_at
        if hour != self.hour:
            # An hour in which the collector was away tells nothing, nor does the first one.
            if self.whole and gap < WATCHED_GAP:
                seen = self.weeks[self.hour % WEEK]
                seen.append(self.came)
                del seen[:-WEEKS]
                # What was long is less so after weeks.
                self.longest *= 0.5 ** (1 / (2 * WEEK))
            self.hour, self.came = hour, 0
            self.whole = gap < WATCHED_GAP
            self.expected, self.by_chance = self._expected(hour), self._by_chance()
        elif gap >= WATCHED_GAP:
            self.whole = False
        if 0 < gap < WATCHED_GAP:
            self.missed += self.expected * gap / HOUR
        self.looked_at = now

    def _expected(self, hour: int) -> float:
        """Return the sessions that come at least in this hour: the mean of the hour and those beside it, in the week
        that had least; never more than the hour has in the mean."""
        around = [self.weeks[(hour + beside) % WEEK] for beside in BESIDE]
        if any(len(seen) < LEARNT_WEEKS for seen in around):
            return 0.0
        by_week = zip(*(reversed(seen) for seen in around), strict=False)
        return float(min(*(fmean(week) for week in by_week), fmean(self.weeks[hour % WEEK])))

    @property
    def bar(self) -> float:
        """The sessions that must be missed for an alarm."""
        return max(self.by_chance, self.longest * LONGER)

    def _by_chance(self) -> float:
        """Return the sessions that are missed in a row by chance `FALSE_ALARMS` times a month."""
        arrivals = sum(fmean(seen) for seen in self.weeks if seen) * 30 / 7
        return log(max(arrivals, 1.0) / FALSE_ALARMS) * self._spread()

    def _spread(self) -> float:
        """The variance of arrivals in an hour of the week over their mean; 1 where they are independent."""
        pairs = [(seen[-1], seen[-2]) for seen in self.weeks if len(seen) >= LEARNT_WEEKS and any(seen)]
        total = sum(one + other for one, other in pairs)
        if not total:
            return 1.0
        return min(max(1.0, sum((one - other) ** 2 for one, other in pairs) / total), MOST_SPREAD)

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        return asdict(self)
