"""Keep the sums over the traces of each agent, by hour, and read them.

A trace's part in the sums follows from its rows. The part is read before and after the rows are written, and the
difference is added. So the sums are exact even if a trace comes late, twice or again, and the part needs no row of its
own.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import add
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    ScalarSelect,
    String,
    Table,
    bindparam,
    cast,
    exists,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)

from agenteval_collector.model.agents import HOUR, AgentFigures, AgentHistory, AgentKey, SeenAgent, step_of
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.cursors import Page
from agenteval_collector.stores.access import TenantConnection, Values, delete_one, ids
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.paging import read_page
from agenteval_collector.stores.rows import effort_from
from agenteval_collector.stores.schema import (
    agent_hours,
    agent_times,
    findings,
    matching,
    outcomes,
    own,
    sessions,
    traces,
)
from otel_agenteval.finding import Severity
from otel_agenteval.metrics.wilson import Clusters
from otel_agenteval.outcome import JudgedPart, Method, SubjectKind

MOST_TIMED: Final = 20_000
"""Traces of an environment whose durations are read one by one, the newest: sums of durations know no environment."""
ALL: Final = ""
"""The name under which all traces of an agent are counted, judged or not."""


class _Time(NamedTuple):
    """The key of a row of `agent_times`."""

    agent: str
    service: str
    hour: int
    version: str
    step: int


class _Hour(NamedTuple):
    """The key of a row of `agent_hours`."""

    name: str
    agent: str
    service: str
    hour: int
    version: str
    session_id: str


class AgentSums:
    """The sums that these traces are part of, as they were when this object was made. Call `update_hours` after the
    rows of the traces were written, and `update_times` after that. The times are those of all sessions, so other
    transactions wait for these rows until this one ends."""

    def __init__(self, connection: TenantConnection, trace_ids: Collection[str]) -> None:
        self._connection = connection
        self._ids = ids(trace_ids)
        self._before = Counter(self._parts()) if trace_ids else None
        self._times: Counter[_Time] = Counter()

    def update_hours(self) -> None:
        """Bring the sums of the traces' sessions up to date."""
        if self._before is None:
            return
        changes = Counter(self._parts())
        changes.subtract(self._before)
        hours: dict[_Hour, dict[str, Any]] = {}
        for (hour, hit, usd, time), count in changes.items():
            if not count:
                continue
            row = hours.setdefault(hour, {**hour._asdict(), "traces": 0, "hits": 0, "usd": 0.0, "priced": 0})
            row["traces"] += count
            row["hits"] += count * hit
            row["usd"] += count * (usd or 0.0)
            row["priced"] += count * (usd is not None)
            if time is not None:
                self._times[time] += count
        # Sorted, as in `update_times`: a row may be of a session that another transaction holds.
        self._connection.upsert(agent_hours, (row for _, row in sorted(hours.items())))

    def update_times(self) -> None:
        """Bring the sums of all sessions up to date."""
        # Sorted, so that no two transactions that write beside each other wait for each other.
        changed = sorted((time, count) for time, count in self._times.items() if count)
        self._connection.upsert(agent_times, ({**time._asdict(), "traces": count} for time, count in changed))

    def forget(self) -> None:
        """Bring the sums up to date after the rows of all these traces were deleted. Delete the rows that count no
        trace any more."""
        before = list(self._before or ())
        self.update_hours()
        self.update_times()
        for hour in {hour for hour, *_ in before}:
            self._connection.execute(_EMPTY_HOUR, hour._asdict())
        for time in {time for *_, time in before if time is not None}:
            self._connection.execute(_EMPTY_TIME, time._asdict())

    def _parts(self) -> Iterator[tuple[_Hour, bool, float | None, _Time | None]]:
        """Yield what each trace adds: its row of hours, whether it is a hit, its price, and the row in which its
        duration counts."""
        for row in self._connection.execute(_TRACES, self._ids):
            if row.agent is None:
                continue
            key = _place_of(row)
            effort = effort_from(row.effort)
            time = None if effort.seconds is None else _Time(*key, step_of(effort.seconds))
            yield _Hour(ALL, *key, row.session_id), bool(row.failed), effort.usd, time
        for row in self._connection.execute(_JUDGED, self._ids):
            if row.agent is None:
                continue
            yield _Hour(row.name, *_place_of(row), row.session_id), bool(row.success), None, None


def _place_of(row: Row[Any]) -> tuple[str, str, int, str]:
    """Return what the sums of a trace are kept by: its agent and service, its hour and its version."""
    return row.agent, row.service or "", row.started_at // HOUR, row.service_version or ""


def changed_by(commit: Commit) -> set[str]:
    """Return the traces whose part in the sums may change with the commit."""
    trace_ids = {finding.trace_id for finding in commit.findings} | {turn.trace_id for turn in commit.revised_turns}
    judged = {evaluation.subject_id for evaluation in commit.evaluations if evaluation.method is Method.LLM}
    return {trace.trace_id for trace in commit.traces} | {*commit.moves} | trace_ids | judged


# No condition on the agent here: with one, SQLite would use the index of agents, and read all traces that have an
# agent.
_OF_TRACES: Final = (own(traces), among(traces.c.trace_id, "ids"))
_PLACE: Final = [traces.c[name] for name in ("agent", "service", "started_at", "service_version", "session_id")]
_TRACES: Final = select(
    *_PLACE,
    traces.c.effort,
    exists()
    .where(
        own(findings),
        findings.c.trace_id == traces.c.trace_id,
        findings.c.severity == literal_column(f"'{Severity.ERROR}'"),
    )
    .label("failed"),
).where(*_OF_TRACES)
_JUDGED: Final = (
    select(*_PLACE, outcomes.c.name, outcomes.c.success)
    .join(outcomes, matching(outcomes, traces, "subject_id", "trace_id"))
    .where(
        *_OF_TRACES,
        outcomes.c.subject == SubjectKind.TRACE,
        # Written so that no index fits: with the index of `JUDGED_AT_RANDOM`, SQLite would read all that was ever
        # judged.
        func.coalesce(outcomes.c.part, "") == JudgedPart.RANDOM,
        outcomes.c.method == Method.LLM,
        outcomes.c.success.is_not(None),
    )
)
_EMPTY_HOUR, _EMPTY_TIME = (delete_one(table).where(table.c.traces <= 0) for table in (agent_hours, agent_times))
"""Statements that delete the row of a key if it counts no trace any more."""


def read_agents(
    connection: TenantConnection, cursor: str | None, limit: int, environment: str | None = None
) -> Page[SeenAgent]:
    """Return the agents, with an environment those that have a session there, the newest telemetry first. Raises
    InvalidRequest for a foreign cursor."""
    agents = _SEEN.where(_NAMES.c.agent.is_not(None)).subquery()
    order = (agents.c.last_seen_at, agents.c.agent, agents.c.service)
    query = select(agents)
    if environment is not None:
        is_there = sessions.c.environment == environment
        its = sessions.c.agent == agents.c.agent, sessions.c.service == agents.c.service
        query = query.where(exists().where(own(sessions), *its, is_there))
    return read_page(connection, query, order, limit=limit, cursor=cursor).map(_seen)


def read_agent(connection: TenantConnection, agent: str) -> list[SeenAgent]:
    """Return the agents of this name, by service; none if the name is unknown."""
    query = _SEEN.where(_NAMES.c.agent == agent).order_by(_NAMES.c.service)
    return [_seen(row) for row in connection.execute(query).mappings()]


def _seen(row: Mapping[Any, Any]) -> SeenAgent:
    return SeenAgent(agent=row["agent"], service=row["service"] or None, last_seen_at=row["last_seen_at"])


def _first(column: ColumnElement[str], *conditions: ColumnElement[bool]) -> ScalarSelect[Any]:
    """Make the query of the agent or service of the first session that fulfils the conditions, by agent and service."""
    query = select(column).where(own(sessions), sessions.c.agent.is_not(None), *conditions)
    return query.order_by(sessions.c.agent, sessions.c.service).limit(1).scalar_subquery()


_KEYS: Final = (sessions.c.agent, sessions.c.service)
_FIRST: Final = select(*(_first(column).label(column.name) for column in _KEYS)).cte("names", recursive=True)
_IS_BEHIND: Final = tuple_(*_KEYS) > tuple_(_FIRST.c.agent, _FIRST.c.service)
_NAMES: Final = _FIRST.union_all(
    select(*(_first(column, _IS_BEHIND) for column in _KEYS)).where(_FIRST.c.agent.is_not(None))
)
"""All agents with their services, and null at the end. From each the index leads to the next one, past all sessions of
the first."""
_LAST_SEEN: Final = select(func.max(sessions.c.last_seen_at)).where(
    own(sessions), sessions.c.agent == _NAMES.c.agent, sessions.c.service == _NAMES.c.service
)
_SEEN: Final = select(_NAMES.c.agent, _NAMES.c.service, _LAST_SEEN.scalar_subquery().label("last_seen_at"))


def read_history(
    connection: TenantConnection, key: AgentKey, since: int, step: int, environment: str | None = None
) -> AgentHistory:
    """Return the figures of an agent from the hour `since` on, with a point every `step` hours. With an environment,
    durations are those of the newest `MOST_TIMED` traces."""
    values: Values = {
        "agent": key.agent,
        "service": key.service or "",
        "since": since,
        "step": step,
        "environment": environment,
    }
    total, points, versions = _Sums(), defaultdict[int, _Sums](_Sums), defaultdict[str, _Sums](_Sums)
    began: dict[str, int] = {}
    for point, name, version, first_hour, *added in connection.execute(_SUMS, values).all():
        began[version] = min(first_hour, began.get(version, first_hour))
        for figures in (total, points[point], versions[version]):
            figures.add(name, added)
    # A session may be in several hours: as a set, it counts once.
    for hour, version, session_id in connection.execute(_SESSIONS, values).all():
        for figures in (total, points[hour // step], versions[version]):
            figures.sessions.add(session_id)
    for version in versions:
        of_version: Values = {**values, "version": version}
        if (first_hour := connection.execute(_FIRST_TIME, of_version).scalar()) is not None:
            began[version] = min(first_hour, began[version])
    for point, version, at, count in _durations(connection, values, [*versions]):
        for figures in (total, points[point], versions[version]):
            figures.steps[at] += count
    return AgentHistory(
        total=total.figures(),
        points={point: figures.figures() for point, figures in points.items()},
        versions={version: figures.figures() for version, figures in versions.items()},
        began=began,
    )


def _durations(
    connection: TenantConnection, values: Values, versions: Iterable[str]
) -> Iterator[tuple[int, str, int, int]]:
    """Yield the point, the version and the step of durations, and how many traces took so long."""
    if values["environment"] is None:
        for version in versions:
            for point, at, count in connection.execute(_TIMES, {**values, "version": version}):
                yield point, version, at, count
        return
    for row in connection.execute(_TIMED_OF_AGENT, {**values, "most": MOST_TIMED}):
        if (taken := effort_from(row.effort).seconds) is not None:
            yield row.started_at // HOUR // values["step"], row.service_version or "", step_of(taken), 1


class _Sums:
    """The sums over a part of an agent's history: over all of it, a point of a chart, or a version."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.steps: Counter[int] = Counter()
        self._by_name: dict[str, list[Any]] = {ALL: [0] * len(_ADDED)}

    def add(self, name: str, added: list[Any]) -> None:
        agent = self._by_name.get(name)
        self._by_name[name] = added if agent is None else list(map(add, agent, added))

    def figures(self) -> AgentFigures:
        rates = {name: Clusters(*summed[:-2]) for name, summed in self._by_name.items()}
        usd, priced = self._by_name[ALL][-2:]
        return AgentFigures(
            sessions=len(self.sessions), errors=rates.pop(ALL), rates=rates, usd=usd, priced=priced, steps=self.steps
        )


def _is_of(table: Table) -> tuple[ColumnElement[bool], ...]:
    return own(table), table.c.agent == bindparam("agent"), table.c.service == bindparam("service")


def _of(table: Table) -> tuple[ColumnElement[bool], ...]:
    """Make the conditions for an agent's rows from a given hour on. They leave out rows that count no trace any
    more."""
    return *_is_of(table), *since_hour(table)


def since_hour(table: Table) -> tuple[ColumnElement[bool], ...]:
    """Make the conditions for sums of traces that began in the hour `since` or later."""
    return table.c.hour >= bindparam("since"), table.c.traces > 0


def is_there(table: Table) -> ColumnElement[bool]:
    """Make the condition that the session of a row is in the `environment`; any is if that is null."""
    environment = bindparam("environment", type_=String)
    in_session = exists().where(matching(sessions, table, "session_id"), sessions.c.environment == environment)
    return or_(environment.is_(None), in_session)


# In the order of the primary key, so that nothing has to be sorted.
_KEY: Final = (agent_hours.c.hour, agent_hours.c.name, agent_hours.c.version)
# As 64 bits: the columns fit into 32 bits, but their products do not.
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
"""The fields of `Clusters` over the sessions of an hour, then the money and the number of traces with a price."""
_HOURS: Final = select(*_KEY, *_ADDED).where(*_of(agent_hours), is_there(agent_hours)).group_by(*_KEY).subquery()
_POINT: Final = (_HOURS.c.hour // bindparam("step")).label("point")
_SUMS: Final = select(
    _POINT,
    _HOURS.c.name,
    _HOURS.c.version,
    func.min(_HOURS.c.hour),
    *(func.sum(_HOURS.c[measure.name]) for measure in _ADDED),
).group_by(_POINT, _HOURS.c.name, _HOURS.c.version)
_SESSIONS: Final = select(agent_hours.c.hour, agent_hours.c.version, agent_hours.c.session_id).where(
    *_of(agent_hours), agent_hours.c.name == ALL, is_there(agent_hours)
)
TIMED: Final = (
    select(traces.c.started_at, traces.c.service_version, traces.c.effort)
    .join(sessions, matching(sessions, traces, "session_id"))
    .where(
        own(traces),
        sessions.c.environment == bindparam("environment", type_=String),
        traces.c.started_at >= bindparam("since") * HOUR,
    )
    .order_by(traces.c.started_at.desc())
    .limit(bindparam("most"))
)
"""The traces of an environment that began in the hour `since` or later, the newest `most`, with what they took."""
_TIMED_OF_AGENT: Final = TIMED.where(
    traces.c.agent == bindparam("agent"), func.coalesce(traces.c.service, "") == bindparam("service")
)
_OF_VERSION: Final = agent_times.c.version == bindparam("version")
_TIME_POINT: Final = (agent_times.c.hour // bindparam("step")).label("point")
_TIMES: Final = (
    select(_TIME_POINT, agent_times.c.step, func.sum(agent_times.c.traces))
    .where(*_of(agent_times), _OF_VERSION)
    .group_by(_TIME_POINT, agent_times.c.step)
)
_FIRST_TIME: Final = select(func.min(agent_times.c.hour)).where(*_is_of(agent_times), _OF_VERSION)
