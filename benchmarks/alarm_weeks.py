"""Weeks of agents that stay as they are, and incidents at their end: false alarms, and how soon an incident is told.

Sessions are clustered: each has its own rate of failures, and each day its own level. Agents work by hour of the day
and of the week, take a time and a cost with heavy tails, and are deployed every few days, which changes both a little.
The code that decides is that of the collector. It looks once a minute.
The seed is fixed.

    python -m benchmarks.alarm_weeks [--weeks WEEKS] [--agents AGENTS] [--json]
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from agenteval_collector.alarms.incidents import Incidents
from agenteval_collector.alarms.rates import DAY, HOUR
from agenteval_collector.alarms.stage import Alarms
from agenteval_collector.model.alarms import AlarmKind, DeployedAgent, TraceFacts, TraceProblem

from benchmarks.harness import arguments, report

START: Final = 20_000 * DAY - 20_000 % 7 * DAY
"""The beginning of a week (ns)."""
LOOK: Final = 60 * 1_000_000_000
"""Nanoseconds between two looks: fewer than in the product, where a look costs little."""
LEARNT: Final = 4
"""Weeks before an incident."""
INCIDENTS: Final = ("tool at 30 %", "ten times slower", "ten times dearer", "silent", "one in three fails")
TOLD_BY: Final = {
    "tool at 30 %": {AlarmKind.TOOL_FAILING, AlarmKind.FAILING},
    "ten times slower": {AlarmKind.SLOW},
    "ten times dearer": {AlarmKind.SPEND},
    "silent": {AlarmKind.SILENT},
    "one in three fails": {AlarmKind.FAILING},
}
Random = np.random.Generator


@dataclass(frozen=True)
class Agent:
    """An agent as it is. `per_hour` are sessions at the height of the day; `days` are 7 where weekends are as other
    days."""

    name: str
    per_hour: float
    failing: float
    days: int
    tail: float = 1.0
    tool: float = 0.01


AGENTS: Final = (
    Agent("3 sessions an hour, 1 % failing", 3, 0.01, 7),
    Agent("20 an hour, 2 %, no weekends", 20, 0.02, 5),
    Agent("20 an hour, 10 %, heavy tails", 20, 0.10, 7, tail=1.5),
    Agent("150 an hour, 1 %, no weekends", 150, 0.01, 5),
    Agent("150 an hour, 5 %", 150, 0.05, 7, tail=1.3),
)


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, weeks=12, agents=4)
    results: dict[str, float | int | str] = {}
    for kind in AGENTS:
        months, told = 0.0, Counter[str]()
        for number in range(given.agents):
            random = np.random.default_rng([13, number])
            told += Counter(str(kind_) for kind_, _ in weeks(random, kind, given.weeks))
            months += given.weeks * 7 / 30
        results[f"{kind.name}: false alarms a month"] = round(told.total() / months, 2)
        if told:
            results[f"{kind.name}: of which"] = ", ".join(f"{name} {count}" for name, count in told.items())
    for kind in (AGENTS[0], AGENTS[1], AGENTS[3]):
        for incident in INCIDENTS:
            delays = [told_after(np.random.default_rng([17, n]), kind, incident) for n in range(given.agents)]
            known = sorted(delay for delay in delays if delay is not None)
            missed = len(delays) - len(known)
            middle = known[len(known) // 2] if known else (math.nan, 0)
            results[f"{kind.name}, {incident}: minutes, sessions until it is told, median"] = (
                f"{middle[0]:.0f}, {middle[1]}" + (f" ({missed} of {len(delays)} not within a day)" if missed else "")
            )
    report("Alarms of agents over weeks", results, as_json=given.json)


def weeks(random: Random, agent: Agent, number: int) -> list[tuple[AlarmKind, int]]:
    """Return the alarms on an agent that stays as it is."""
    known, told = Alarms(Incidents([], {}), {}, START), []
    for traces, now in looks(traces_of(random, agent, START, number * 7 * DAY), START, number * 7 * DAY):
        told += look(known, traces, now)
    return told


def told_after(random: Random, agent: Agent, incident: str) -> tuple[float, int] | None:
    """Return the minutes and sessions after which an incident is told that begins on a working day at 10 o'clock."""
    known = Alarms(Incidents([], {}), {}, START)
    for traces, now in looks(
        traces_of(random, agent, START, LEARNT * 7 * DAY + 10 * HOUR), START, LEARNT * 7 * DAY + 10 * HOUR
    ):
        look(known, traces, now)
    begin = START + LEARNT * 7 * DAY + 10 * HOUR
    before = set(known.incidents.firing)
    sessions: set[str] = set()
    for traces, now in looks(traces_of(random, agent, begin, DAY, incident), begin, DAY):
        sessions |= {trace.session_id for trace in traces}
        for kind, _ in look(known, traces, now):
            if kind in TOLD_BY[incident] and kind not in {key.kind for key in before}:
                return (now - begin) / 60e9, len(sessions)
    return None


def look(known: Alarms, traces: Sequence[TraceFacts], now: int) -> list[tuple[AlarmKind, int]]:
    """Look once. Return the alarms that begin."""
    known.take(traces, ())
    known.decide(now, {})
    return [
        (alarm.key.kind, now) for alarm in known.incidents.take_changed() if alarm.until is None and alarm.since == now
    ]


def looks(traces: Iterator[TraceFacts], start: int, length: int) -> Iterator[tuple[list[TraceFacts], int]]:
    """Yield the traces of each look and its time."""
    waiting = next(traces, None)
    for now in range(start + LOOK, start + length + 1, LOOK):
        seen = []
        while waiting is not None and waiting.scored_at <= now:
            seen.append(waiting)
            waiting = next(traces, None)
        yield seen, now


def traces_of(random: Random, agent: Agent, start: int, length: int, incident: str = "") -> Iterator[TraceFacts]:
    """Yield the traces of an agent, in the order of time."""
    made = list(_made(random, agent, start, length, incident))
    made.sort(key=lambda trace: trace.scored_at)
    return iter(made)


def _made(random: Random, agent: Agent, start: int, length: int, incident: str) -> Iterator[TraceFacts]:
    level = slower = dearer = 1.0
    for hour in range(-(-length // HOUR)):
        at = start + hour * HOUR
        if hour % 24 == 0:
            # Each day is a little better or worse, and now and then there is a deploy.
            level = float(np.exp(random.normal(0, 0.25)))
            if random.random() < 0.3:
                slower, dearer = (float(np.exp(random.normal(0, 0.12))) for _ in range(2))
        if incident == "silent":
            continue
        for _ in range(random.poisson(agent.per_hour * _work(agent, at))):
            yield from _session(random, agent, at + int(random.random() * HOUR), level, slower, dearer, incident)


def _work(agent: Agent, at: int) -> float:
    """Return the share of the height of the day."""
    if at // DAY % 7 >= agent.days:
        return 0.0
    of_day = at % DAY / DAY
    return 0.05 + 0.95 * max(0.0, math.sin(math.pi * (of_day * 1.3 - 0.2))) ** 1.0 if 0.15 < of_day < 0.93 else 0.05


def _session(
    random: Random, agent: Agent, at: int, level: float, slower: float, dearer: float, incident: str
) -> Iterator[TraceFacts]:
    """Yield the traces of a session. Its rate of failures is its own: most have none, a few fail again and again."""
    session_id = f"{at}-{random.integers(1 << 60)}"
    rate = agent.failing * level
    failing = float(random.beta(0.3, 0.3 / rate - 0.3)) if rate < 1 else 1.0
    tool = float(random.beta(0.3, 0.3 / agent.tool / level - 0.3))
    usd = 0.0
    for turn in range(1 + int(random.geometric(0.4))):
        problems = []
        if random.random() < (0.33 if incident == "one in three fails" else failing):
            problems.append(FAILED)
        if random.random() < (0.3 if incident == "tool at 30 %" else tool):
            problems.append(TOOL)
        seconds = 4 * slower * float(np.exp(random.normal(0, agent.tail))) * (10 if "slower" in incident else 1)
        usd += 0.02 * dearer * float(np.exp(random.normal(0, agent.tail))) * (10 if "dearer" in incident else 1)
        yield TraceFacts(
            watched=WHO,
            trace_id=f"{session_id}-{turn}",
            session_id=session_id,
            version="1",
            scored_at=at + turn * 40_000_000_000,
            seconds=seconds,
            usd=usd,
            problems=problems,
        )


WHO: Final = DeployedAgent("prod", "shop", "agent")
FAILED: Final = TraceProblem(
    "f" * 16, "turn_failed", None, "error", "Turn fails", START - 30 * DAY, None, is_muted=False
)
"""A problem that was known before, so that it is no news by itself."""
TOOL: Final = FAILED._replace(problem_id="e" * 16, kind="tool_failed", tool="find", severity="warning")


if __name__ == "__main__":
    main()
