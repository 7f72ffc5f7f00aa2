"""A watch over one rate: the share of an agent's traces in which something happens, compared with its past.

A trial is a trace whose session has not been hit that day. So a session is hit once at most, however many of its traces
fail: traces of a session are alike, sessions are not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from otel_agenteval.metrics.rise import NO_EVIDENCE, rise_evidence
from otel_agenteval.metrics.wilson import wilson

HOUR: Final = 3600 * 1_000_000_000
"""Nanoseconds."""
DAY: Final = 24 * HOUR
MONTH: Final = 30 * DAY
FALSE_ALARMS: Final = 0.2
"""False alarms of one rate in a month and agent, at most, while the rate stays within `LIMIT` of what it was. The five
kinds that compare with the past have one a month together."""
LIMIT: Final = 1.5
"""A rate may be this many times its past without an alarm, because days differ."""
MARGIN: Final = 0.01
"""Added to that limit, so that a rate near zero may rise a little."""
HIGHEST: Final = 0.6
"""A limit above this leaves nothing to be seen: such an agent needs an objective."""
LEARNT_FROM: Final = 50
"""Trials of the past without which nothing is compared."""
LEARNT_FOR: Final = DAY
"""Nanoseconds of the past without which nothing is compared."""
REMEMBERED: Final = 5_000.0
"""Trials that the past counts at most. Older ones weigh less."""
HALF_LIFE: Final = 14 * 24
"""Hours after which the past weighs half."""
RECENT: Final = 0.08
"""The weight of the newest trial in the recent rate."""
OVER: Final = 200.0
"""Evidence that a rate has come down, on which an alarm ends: while it has not, so many trials pass in the mean."""
QUIET: Final = 6 * HOUR
"""Nanoseconds without a hit after which an alarm ends, whatever the evidence."""
NEW_NORMAL: Final = 7 * DAY
"""Nanoseconds after which an alarm ends because what it tells of has become the agent's past."""


@dataclass(slots=True)
class RateWatch:
    """Compare a rate with its own past. `trials` and `hits` are its past, `new_trials` and `new_hits` the present hour.

    `rising` and `falling` are parts of evidence, `recent` is the rate of the last trials. `alarm_limit` is set while an
    alarm fires: the rate above which the alarm goes on. Times are in nanoseconds since the Unix epoch.
    """

    since: int
    last: int
    trials: float = 0.0
    hits: float = 0.0
    new_trials: int = 0
    new_hits: int = 0
    recent: float = 0.0
    rising: Sequence[float] = NO_EVIDENCE
    falling: Sequence[float] = NO_EVIDENCE
    last_hit: int = 0
    alarm_limit: float | None = None
    alarm_since: int = 0

    def limit(self, now: int, objective: float | None) -> float | None:
        """Return the rate above which there is an alarm: the objective, else one by the past. None while the past does
        not tell."""
        if objective is not None:
            return objective
        if self.trials < LEARNT_FROM or now - self.since < LEARNT_FOR:
            return None
        _, upper = wilson(self.usual, self.trials)
        limit = LIMIT * upper + MARGIN
        return limit if limit <= HIGHEST else None

    @property
    def usual(self) -> float:
        """The rate of the past; 0 without one."""
        return min(1.0, self.hits / self.trials) if self.trials else 0.0

    @property
    def evidence(self) -> float:
        """The evidence that the rate is above its limit; it may be compared with a threshold at any time."""
        return sum(self.rising) / len(self.rising)

    def take(self, hit: bool, at: int, objective: float | None) -> None:
        """Count one more trial."""
        weight = max(0, at - self.last) / MONTH
        limit = self.limit(at, objective)
        if self.alarm_limit is not None:
            # A trial that is no hit speaks for the end.
            self.falling = rise_evidence(self.falling, hit=not hit, limit=1.0 - self.alarm_limit, weight=1.0)
        elif limit is not None:
            self.rising = rise_evidence(self.rising, hit=hit, limit=limit, weight=weight)
        self.new_trials += 1
        self.new_hits += hit
        self.recent += RECENT * (hit - self.recent)
        self.last = max(self.last, at)
        if hit:
            self.last_hit = max(self.last_hit, at)

    def begin_alarm(self, at: int, limit: float) -> None:
        """Note that an alarm fires. It goes on while the rate is above the limit, and above half of what it was."""
        self.alarm_limit, self.alarm_since = min(max(limit, self.recent / 2), 0.9), at
        self.falling = NO_EVIDENCE

    def end_alarm(self) -> None:
        """Note that the alarm does not fire any more."""
        self.alarm_limit, self.rising, self.falling = None, NO_EVIDENCE, NO_EVIDENCE

    @property
    def is_high(self) -> bool:
        """Return whether an alarm fires and the last trials are above its limit."""
        return self.alarm_limit is not None and self.recent >= self.alarm_limit

    def is_over(self, now: int) -> bool:
        """Return whether the alarm ends: the rate has come down, or there was no hit for long, or it is the new
        normal."""
        if now - self.alarm_since >= NEW_NORMAL:
            # What it was is no measure any more. It learns anew.
            self.trials, self.hits, self.since = 0.0, 0.0, now
            return True
        came_down = sum(self.falling) / len(self.falling) >= OVER
        return came_down or now - max(self.last_hit, self.alarm_since) >= QUIET

    def close_hour(self, hours: int) -> None:
        """Let the present hour be past. `hours` is how many have gone since the last call. While an alarm fires,
        what comes is no measure of the usual."""
        kept = 0.5 ** (hours / HALF_LIFE)
        self.trials *= kept
        self.hits *= kept
        if self.alarm_limit is None:
            self.trials += self.new_trials
            self.hits += self.new_hits
        self.new_trials = self.new_hits = 0
        if self.trials > REMEMBERED:
            self.hits *= REMEMBERED / self.trials
            self.trials = REMEMBERED

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> "RateWatch":
        """Make a watch of what `as_json` gave."""
        evidence = {name: tuple(stored[name]) for name in ("rising", "falling")}
        return cls(**{**stored, **evidence})

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        return asdict(self)
