"""Keep what the traces of agents add up to, by hour.

What a trace adds follows from its rows. It is read before and after they are written, and the difference is added: so
the sums are exact whatever comes late, twice or again, and it takes no row of its own.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Delete, Table, bindparam, delete, exists, func, literal_column, select

from agenteval_collector.model.agents import HOUR, step_of
from agenteval_collector.model.commit import Commit
from agenteval_collector.runtime.json_lists import among
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.rows import effort_from
from agenteval_collector.stores.schema import (
    agent_hours,
    agent_times,
    findings,
    outcomes,
    own,
    traces,
)
from otel_agenteval.finding import Severity
from otel_agenteval.outcome import Method, Part, Subject

ALL: Final = ""
"""The name under which all traces of an agent are counted, whatever was judged."""


class _Time(NamedTuple):
    """The key of a row of `agent_times`."""

    agent: str
    hour: int
    version: str
    step: int


class _Hour(NamedTuple):
    """The key of a row of `agent_hours`."""

    name: str
    agent: str
    hour: int
    version: str
    session_id: str


class AgentSums:
    """The sums that these traces are part of, as they are now. `update_hours` after the rows of the traces were
    written, then `update_times`: the times are those of all sessions, so others wait for these rows until the
    transaction ends."""

    def __init__(self, connection: TenantConnection, trace_ids: Collection[str]) -> None:
        self._connection = connection
        self._ids = ids(trace_ids)
        self._before = Counter(self._parts()) if trace_ids else None
        self._times: Counter[_Time] = Counter()

    def update_hours(self) -> None:
        """Bring the sums of the traces' sessions up to date."""
        if self._before is None:
            return
        after = Counter(self._parts())
        hours: dict[_Hour, dict[str, Any]] = {}
        for sign, parts in ((1, after - self._before), (-1, self._before - after)):
            for (hour, hit, usd, time), count in parts.items():
                row = hours.setdefault(hour, {**hour._asdict(), "traces": 0, "hits": 0, "usd": 0.0, "priced": 0})
                row["traces"] += sign * count
                row["hits"] += sign * count * hit
                row["usd"] += sign * count * (usd or 0.0)
                row["priced"] += sign * count * (usd is not None)
                if time is not None:
                    self._times[time] += sign * count
        # In one order, as below: a row may be of a session that another transaction holds.
        self._connection.upsert(agent_hours, (row for _, row in sorted(hours.items())))

    def update_times(self) -> None:
        """Bring the sums of all sessions up to date."""
        # In one order: so no two that write beside each other wait for each other.
        changed = sorted((time, count) for time, count in self._times.items() if count)
        self._connection.upsert(agent_times, ({**time._asdict(), "traces": count} for time, count in changed))

    def forget(self) -> None:
        """Bring the sums up to date after the rows of all of these traces were deleted: what has no trace goes."""
        before = list(self._before or ())
        self.update_hours()
        self.update_times()
        for hour in {hour for hour, *_ in before}:
            self._connection.execute(
                _forget(agent_hours), {f"of_{name}": value for name, value in hour._asdict().items()}
            )
        for time in {time for *_, time in before if time is not None}:
            self._connection.execute(
                _forget(agent_times), {f"of_{name}": value for name, value in time._asdict().items()}
            )

    def _parts(self) -> Iterator[tuple[_Hour, bool, float | None, _Time | None]]:
        """Yield what each trace adds: where, whether it is a hit, its price, and where its duration counts."""
        for row in self._connection.execute(_TRACES, self._ids):
            if row.agent is None:
                continue
            place = row.agent, row.started_at // HOUR, row.service_version or ""
            effort = effort_from(row.effort)
            time = None if effort.seconds is None else _Time(*place, step_of(effort.seconds))
            yield _Hour(ALL, *place, row.session_id), bool(row.failed), effort.usd, time
        for row in self._connection.execute(_JUDGED, self._ids):
            if row.agent is None:
                continue
            place = row.agent, row.started_at // HOUR, row.service_version or ""
            yield _Hour(row.name, *place, row.session_id), bool(row.success), None, None


@cache
def _forget(table: Table) -> Delete:
    """Return the statement that deletes a row without traces by its key."""
    key = (column == bindparam(f"of_{column.name}") for column in table.primary_key if column.name != "tenant")
    return delete(table).where(own(table), *key, table.c.traces <= 0)


def changed_by(commit: Commit) -> set[str]:
    """Return the traces that may add something else after the commit."""
    found = {each.trace_id for each in commit.findings} | {each.trace_id for each in commit.retold}
    judged = {each.subject_id for each in commit.evaluations if each.method is Method.LLM}
    return {each.trace_id for each in commit.traces} | {*commit.moves} | found | judged


# Without a condition on the agent: for that SQLite would read all traces that have one, by the index of agents.
_OF_TRACES: Final = (own(traces), among(traces.c.trace_id, "ids"))
_PLACE: Final = (traces.c.agent, traces.c.started_at, traces.c.service_version, traces.c.session_id)
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
    .join(outcomes, (outcomes.c.tenant == traces.c.tenant) & (outcomes.c.subject_id == traces.c.trace_id))
    .where(
        *_OF_TRACES,
        outcomes.c.subject == Subject.TRACE,
        # In a form that no index has: by that of `JUDGED_AT_RANDOM` SQLite would read all that was ever judged.
        func.coalesce(outcomes.c.part, "") == Part.RANDOM,
        outcomes.c.method == Method.LLM,
        outcomes.c.success.is_not(None),
    )
)
