"""Read what all agents did together since some hour, and which environments there are."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import BigInteger, cast, func, select

from agenteval_collector.model.agents import AgentKey, Deploy, Overview, Traffic, step_of
from agenteval_collector.stores.access import TenantConnection, Values
from agenteval_collector.stores.agents import ALL, MOST_TIMED, TIMED, is_there, since_hour
from agenteval_collector.stores.rows import effort_from
from agenteval_collector.stores.schema import agent_hours, agent_times, own, sessions

MOST_DEPLOYS: Final = 10
MOST_ENVIRONMENTS: Final = 50
LOOKED_AT: Final = 5_000
"""The newest sessions whose environments are known."""


def read_environments(connection: TenantConnection) -> list[str]:
    """Return the environments of the newest sessions, by name."""
    return [str(name) for name in connection.execute(_ENVIRONMENTS).scalars()]


def read_overview(connection: TenantConnection, since: int, step: int, environment: str | None) -> Overview:
    """Return what all agents did from the hour `since` on, in one environment or in all, with a point every `step`
    hours. With an environment, durations are those of the newest `MOST_TIMED` traces."""
    values: Values = {"since": since, "environment": environment}
    points: dict[int, Traffic] = {}
    for hour, *sums in connection.execute(_HOURS, values):
        point = hour // step
        points[point] = Traffic(*map(sum, zip(points.get(point, Traffic()), (0, *sums), strict=True)))
    seen: defaultdict[int, set[str]] = defaultdict(set)
    for hour, session_id in connection.execute(_SESSIONS, values):
        seen[hour // step].add(session_id)
    points = {point: traffic._replace(sessions=len(seen[point])) for point, traffic in points.items()}
    total = Traffic(*map(sum, zip(Traffic(), *points.values(), strict=True)))
    return Overview(
        total=total._replace(sessions=len(set().union(*seen.values()))),
        points=points,
        steps=_steps(connection, values),
        deploys=_deploys(connection, values),
    )


def _steps(connection: TenantConnection, values: Values) -> Mapping[int, int]:
    if values["environment"] is None:
        return {row.step: row.traces for row in connection.execute(_STEPS, values)}
    rows = connection.execute(TIMED, {**values, "most": MOST_TIMED})
    taken = (effort_from(row.effort).seconds for row in rows)
    return Counter(step_of(seconds) for seconds in taken if seconds is not None)


def _deploys(connection: TenantConnection, values: Values) -> list[Deploy]:
    """Return the versions that began since then, each with the one that began before it."""
    counted = {
        (AgentKey(agent, service or None), version): (traces, hits)
        for agent, service, version, traces, hits in connection.execute(_BY_VERSION, values)
    }
    before: dict[AgentKey, str] = {}
    deploys = []
    for agent, service, version, began in connection.execute(_BEGAN):
        key = AgentKey(agent, service or None)
        earlier, before[key] = before.get(key), version
        # Of a version that is not in the environment, nothing is counted.
        if began >= values["since"] and (key, version) in counted:
            traces, errors = counted[key, version]
            deploys.append(
                Deploy(key, version, earlier, began, traces, errors, *counted.get((key, earlier or ""), (0, 0)))
            )
    return deploys[: -MOST_DEPLOYS - 1 : -1]


def _sum(name: str) -> Any:
    column = agent_hours.c[name]
    return func.sum(column if name == "usd" else cast(column, BigInteger)).label(name)


_SINCE: Final = (own(agent_hours), *since_hour(agent_hours), agent_hours.c.name == ALL, is_there(agent_hours))
_HOURS: Final = (
    select(agent_hours.c.hour, *map(_sum, ("traces", "hits", "usd", "priced")))
    .where(*_SINCE)
    .group_by(agent_hours.c.hour)
)
_SESSIONS: Final = select(agent_hours.c.hour, agent_hours.c.session_id).where(*_SINCE)
_STEPS: Final = (
    select(agent_times.c.step, func.sum(agent_times.c.traces).label("traces"))
    .where(own(agent_times), *since_hour(agent_times))
    .group_by(agent_times.c.step)
)
_VERSION: Final = [agent_hours.c[name] for name in ("agent", "service", "version")]
_BY_VERSION: Final = select(*_VERSION, *map(_sum, ("traces", "hits"))).where(*_SINCE).group_by(*_VERSION)
_FIRST: Final = func.min(agent_times.c.hour)
_BEGAN: Final = (
    select(agent_times.c.agent, agent_times.c.service, agent_times.c.version, _FIRST)
    .where(own(agent_times), agent_times.c.version != "", agent_times.c.traces > 0)
    .group_by(agent_times.c.agent, agent_times.c.service, agent_times.c.version)
    .order_by(_FIRST, agent_times.c.version)
)
_NEWEST: Final = (
    select(sessions.c.environment)
    .where(own(sessions))
    .order_by(sessions.c.last_seen_at.desc(), sessions.c.session_id.desc())
    .limit(LOOKED_AT)
    .subquery()
)
_ENVIRONMENTS: Final = (
    select(_NEWEST.c.environment)
    .where(_NEWEST.c.environment.is_not(None))
    .distinct()
    .order_by(_NEWEST.c.environment)
    .limit(MOST_ENVIRONMENTS)
)
