"""Read what the traces of agents add up to."""

from collections import Counter, defaultdict
from operator import add
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Table, bindparam, cast, func, select

from agenteval_collector.model.agents import AgentFigures, AgentHistory, SeenAgent
from agenteval_collector.model.cursors import Page
from agenteval_collector.stores.access import TenantConnection, Values
from agenteval_collector.stores.agent_sums import ALL
from agenteval_collector.stores.paging import read_page
from agenteval_collector.stores.schema import agent_hours, agent_times, own, sessions
from otel_agenteval.metrics import Clusters


def read_agents(connection: TenantConnection, cursor: str | None, limit: int) -> Page[SeenAgent]:
    """Return the agents, those with the newest telemetry first. Raises InvalidRequest for a foreign cursor."""
    newest = select(func.max(sessions.c.last_seen_at)).where(own(sessions), sessions.c.agent == _NAMES.c.agent)
    query = select(_NAMES.c.agent, newest.scalar_subquery().label("last_seen_at"))
    seen = query.where(_NAMES.c.agent.is_not(None)).subquery()
    order = (seen.c.last_seen_at, seen.c.agent)
    page = read_page(connection, select(seen), order, limit=limit, cursor=cursor)
    return Page(items=[SeenAgent(**row) for row in page.items], next_cursor=page.next_cursor)


_FIRST: Final = select(func.min(sessions.c.agent).label("agent")).where(own(sessions)).cte("names", recursive=True)
_NAMES: Final = _FIRST.union_all(
    select(
        select(func.min(sessions.c.agent)).where(own(sessions), sessions.c.agent > _FIRST.c.agent).scalar_subquery()
    ).where(_FIRST.c.agent.is_not(None))
)
"""The names of all agents, and none at the end: each leads to the next one by the index, past all its sessions."""


def read_agent(connection: TenantConnection, agent: str) -> SeenAgent | None:
    """Return an agent; None where it is unknown."""
    query = select(func.max(sessions.c.last_seen_at)).where(own(sessions), sessions.c.agent == agent)
    at = connection.execute(query).scalar()
    return None if at is None else SeenAgent(agent=agent, last_seen_at=at)


def read_history(connection: TenantConnection, agent: str, since: int, step: int) -> AgentHistory:
    """Return the figures of an agent since that hour, with a point every `step` hours."""
    asked: Values = {"agent": agent, "since": since, "step": step}
    total, points, versions = _Sums(), defaultdict[int, _Sums](_Sums), defaultdict[str, _Sums](_Sums)
    began: dict[str, int] = {}
    for point, name, version, first_hour, *added in connection.execute(_SUMS, asked).all():
        began[version] = min(first_hour, began.get(version, first_hour))
        for part in (total, points[point], versions[version]):
            part.add(name, added)
    for hour, version, session_id in connection.execute(_SESSIONS, asked).all():
        for part in (total, points[hour // step], versions[version]):
            part.sessions.add(session_id)
    for version, in_version in versions.items():
        of_version: Values = {**asked, "version": version}
        for point, place, traces in connection.execute(_TIMES, of_version).all():
            for part in (total, points[point], in_version):
                part.steps[place] += traces
        if (first_hour := connection.execute(_FIRST_TIME, of_version).scalar()) is not None:
            began[version] = min(first_hour, began[version])
    return AgentHistory(
        total=total.figures(),
        points={point: part.figures() for point, part in points.items()},
        versions={version: part.figures() for version, part in versions.items()},
        began=began,
    )


class _Sums:
    """Figures that are added up."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.steps: Counter[int] = Counter()
        self._by_name: dict[str, list[Any]] = {ALL: [0] * len(_ADDED)}

    def add(self, name: str, added: list[Any]) -> None:
        known = self._by_name.get(name)
        self._by_name[name] = added if known is None else list(map(add, known, added))

    def figures(self) -> AgentFigures:
        rates = {name: Clusters(*summed[:-2]) for name, summed in self._by_name.items()}
        usd, priced = self._by_name[ALL][-2:]
        return AgentFigures(
            sessions=len(self.sessions), errors=rates.pop(ALL), rates=rates, usd=usd, priced=priced, steps=self.steps
        )


def _of(table: Table) -> tuple[ColumnElement[bool], ...]:
    """Make the condition for rows of an agent since an hour; what was taken back leaves a row of nothing."""
    return own(table), table.c.agent == bindparam("agent"), table.c.hour >= bindparam("since"), table.c.traces > 0


# In the order of the primary key, so that nothing has to be sorted.
_KEY: Final = (agent_hours.c.hour, agent_hours.c.name, agent_hours.c.version)
# Their products do not fit into 32 bits, as the columns do.
_TRIALS, _HITS = (cast(column, BigInteger) for column in (agent_hours.c.traces, agent_hours.c.hits))
_ADDED: Final = (
    func.count().label("clusters"),
    *(
        func.sum(column).label(name)
        for name, column in {
            "trials": _TRIALS,
            "hits": _HITS,
            "trials_squared": _TRIALS * _TRIALS,
            "hits_squared": _HITS * _HITS,
            "trials_by_hits": _TRIALS * _HITS,
            "usd": agent_hours.c.usd,
            "priced": agent_hours.c.priced,
        }.items()
    ),
)
"""The fields of `Clusters`, of sessions in an hour, then money and how many traces have a price."""
_HOURS: Final = select(*_KEY, *_ADDED).where(*_of(agent_hours)).group_by(*_KEY).subquery()
_POINT: Final = (_HOURS.c.hour // bindparam("step")).label("point")
_SUMS: Final = select(
    _POINT,
    _HOURS.c.name,
    _HOURS.c.version,
    func.min(_HOURS.c.hour),
    *(func.sum(_HOURS.c[each.name]) for each in _ADDED),
).group_by(_POINT, _HOURS.c.name, _HOURS.c.version)
_SESSIONS: Final = select(agent_hours.c.hour, agent_hours.c.version, agent_hours.c.session_id).where(
    *_of(agent_hours), agent_hours.c.name == ALL
)
_OF_VERSION: Final = agent_times.c.version == bindparam("version")
_TIME_POINT: Final = (agent_times.c.hour // bindparam("step")).label("point")
_TIMES: Final = (
    select(_TIME_POINT, agent_times.c.step, func.sum(agent_times.c.traces))
    .where(*_of(agent_times), _OF_VERSION)
    .group_by(_TIME_POINT, agent_times.c.step)
)
_FIRST_TIME: Final = select(func.min(agent_times.c.hour)).where(
    own(agent_times), agent_times.c.agent == bindparam("agent"), _OF_VERSION
)
