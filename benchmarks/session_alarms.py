"""False alarms of the alert on low sessions, and the time until it finds a drop.

False alarms are those on agents that stay as they are. Agents work day and night, and the alert looks once a minute, as
the rules do. The seed is fixed.

    python -m benchmarks.session_alarms [--days DAYS] [--json]
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from benchmarks.harness import arguments, report
from otel_agenteval.metrics.chance import low_limit

ACTIVE = 20
"""Minutes that a session is active: five, and `session.idle`."""
KEPT = 1000
"""Number of past sessions that count."""
FOR = 5
"""Minutes that AgentSessionsLow waits."""

Random = np.random.Generator


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, days=120)
    random = np.random.default_rng(13)
    results: dict[str, float | int | str] = {}
    for rate in (0.02, 0.1, 0.3):
        for per_hour in (6, 30, 150):
            alarms = false_alarms(random, rate, per_hour=per_hour, hours=24 * given.days)
            results[f"AgentSessionsLow, {rate:g} low, {per_hour} sessions an hour: alarms a year"] = per_year(
                alarms, given.days
            )
    for per_hour in (6, 30, 150):
        found = sorted(minutes_to_find(random, 0.1, 0.5, per_hour=per_hour) for _ in range(50))
        results[f"AgentSessionsLow, 0.1 -> 0.5, {per_hour} sessions an hour: minutes until an alarm, median"] = found[
            25
        ]
    report(f"Alarms over {given.days} days of each agent", results, as_json=given.json)


def per_year(alarms: int, days: int) -> float:
    """Return the number of alarms in a year."""
    return round(alarms * 365 / days, 1)


def false_alarms(random: Random, rate: float, *, per_hour: float, hours: int) -> int:
    """Count the alarms on a new agent with this share of low sessions, in this many hours."""
    return _beginnings(islice(_looks(random, lambda _: rate, per_hour, before=0), hours * 60), FOR)


def minutes_to_find(random: Random, before: float, after: float, *, per_hour: float, most: int = 2000) -> int:
    """Return the minutes from a change in the share of low sessions to the alarm; `most` if there is no alarm."""
    looks = islice(_looks(random, lambda minute: before if minute < ACTIVE else after, per_hour, before=KEPT), most)
    run = 0
    # The share changes after `ACTIVE` minutes, when the window of active sessions is full.
    for minute, high in enumerate(looks):
        run = run + 1 if high and minute >= ACTIVE else 0
        if run > FOR:
            return minute - ACTIVE
    return most


def _looks(random: Random, rate: Callable[[int], float], per_hour: float, *, before: int) -> Iterator[bool]:
    """Yield for each minute whether more active sessions are low than the limit allows."""
    past = deque((random.random(before) < rate(0)).tolist(), maxlen=KEPT)
    active: deque[list[bool]] = deque()
    minute = 0
    while True:
        active.append((random.random(random.poisson(per_hour / 60)) < rate(minute)).tolist())
        if len(active) > ACTIVE:
            past.extend(active.popleft())
        sessions = sum(len(each) for each in active)
        yield sum(sum(each) for each in active) > low_limit(sessions, len(past), sum(past))
        minute += 1


def _beginnings(looks: Iterator[bool] | list[bool], wait: int) -> int:
    """Count how often an alert begins to fire, if it waits this many minutes before."""
    begun = run = 0
    for high in looks:
        run = run + 1 if high else 0
        begun += run == wait + 1
    return begun


if __name__ == "__main__":
    main()
