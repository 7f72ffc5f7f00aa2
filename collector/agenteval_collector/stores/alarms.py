"""Keep alarms and what they have learnt, and read the traces that they look at."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, String, bindparam, delete, func, literal_column, or_, select, update

from agenteval_collector.model.alarms import (
    ALARM_KINDS,
    AgentAlarm,
    AlarmFilter,
    AlarmKey,
    AlarmKind,
    AlarmSeverity,
    AlarmState,
    DeployedAgent,
    TraceFacts,
    TraceProblem,
)
from agenteval_collector.model.cursors import Page
from agenteval_collector.model.problem import ProblemKey, problem_of_finding
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import Outdated
from agenteval_collector.stores.access import TenantConnection, TenantDatabase, Values, ids
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.paging import read_page
from agenteval_collector.stores.rows import effort_from, to_json, whose
from agenteval_collector.stores.schema import (
    alarm_examples,
    alarm_progress,
    alarm_watches,
    alarms,
    deletions,
    findings,
    matching,
    own,
    problem_traces,
    problems,
    sessions,
    trace_views,
    traces,
)
from agenteval_collector.stores.trace_json import tools_in
from otel_agenteval.detectors.rules import LOOP_KINDS

LARGEST: Final = 50_000
"""Characters of what is kept of a trace, beyond which its tools are not looked for."""
MOST_ALARMS: Final = 2_000
"""The most alarms that are kept. Beyond that, those that began first are forgotten."""
MOST_WATCHES: Final = 1_000
"""The most agents whose past is kept. Beyond that, those without a trace for longest are forgotten."""


class Occurrence(NamedTuple):
    """A problem that occurred in a trace, which need not be complete.

    `is_known` is False if the store has no such problem: that of a loop may be that of what fails in it.
    """

    watched: DeployedAgent
    trace_id: str
    session_id: str
    found_at: int
    problem: TraceProblem
    is_known: bool = True


class Learnt(NamedTuple):
    """What is kept of an agent between two processes, as JSON, and when its last trace was scored (ns)."""

    watched: DeployedAgent
    learnt: str
    seen_at: int


class AlarmStore:
    """The rows of alarms. Thread-safe; every method raises Unavailable if the database refuses."""

    def __init__(self, database: TenantDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def progress(self) -> int | None:
        """Return the time (ns) until which scored traces were looked at; None before the first look."""
        at: int | None = self._database.value(select(alarm_progress.c.scored_at).where(own(alarm_progress)))
        return at

    def erased(self) -> str:
        """Return what deletions have removed so far. It differs once one has removed more."""
        with self._database.snapshot() as connection:
            return _erased(connection)

    def learnt(self) -> list[Learnt]:
        """Return what is kept of each agent."""
        rows = self._database.rows(select(alarm_watches).where(own(alarm_watches)))
        return [Learnt(_named(row.environment, row.service, row.agent), row.learnt, row.seen_at) for row in rows]

    def firing(self) -> list[AgentAlarm]:
        """Return the alarms that fire."""
        with self._database.snapshot() as connection:
            return read_firing(connection)

    def scored(self, after: int, until: int, limit: int) -> list[TraceFacts]:
        """Return the traces scored after `after` and until `until` (ns), the first `limit` of them."""
        with self._database.snapshot() as connection:
            values = {"after": after, "until": until, "most": limit}
            rows = connection.execute(_SCORED, values).all()
            trace_ids = [row.trace_id for row in rows]
            found = self._problems(connection, trace_ids)
            views = connection.execute(_VIEWS, {**ids(trace_ids), "largest": LARGEST})
            tools = {row.trace_id: frozenset(tools_in(row.view)) for row in views}
        return [
            TraceFacts(
                watched=DeployedAgent(row.environment, row.service, row.agent),
                trace_id=row.trace_id,
                session_id=row.session_id,
                version=row.service_version,
                scored_at=row.scored_at,
                seconds=effort_from(row.effort).seconds,
                usd=effort_from(row.session_effort).usd,
                problems=found[row.trace_id],
                tools=tools.get(row.trace_id),
            )
            for row in rows
        ]

    def loops(self, after: int, until: int, limit: int) -> list[Occurrence]:
        """Return the alarming loops found after `after` and until `until` (ns), the first `limit` of them."""
        with self._database.snapshot() as connection:
            rows = connection.execute(_LOOPS, {"after": after, "until": until, "most": limit}).mappings().all()
            keys = [
                problem_of_finding(whose(row), row["kind"], row["severity"], row["tool"], json.loads(row["metadata"]))
                for row in rows
            ]
            marks = self._marks(connection, [key.problem_id for key in keys if key is not None])
        return [
            Occurrence(
                DeployedAgent(row["environment"], row["service"], row["agent"]),
                row["trace_id"],
                row["session_id"],
                row["found_at"],
                marks.get(key.problem_id) or _unmarked(key, row),
                key.problem_id in marks,
            )
            for row, key in zip(rows, keys, strict=True)
            if key is not None and row["kind"] in LOOP_KINDS
        ]

    def new_problems(self, since: int, limit: int) -> list[Occurrence]:
        """Return the problems that began or came back after `since` (ns), each with its newest occurrence. A judged
        failure is stored long after its trace."""
        with self._database.snapshot() as connection:
            rows = connection.execute(_NEW_PROBLEMS, {"since": since, "most": limit}).mappings().all()
            last = [connection.execute(_LAST, {"problem": row["problem_id"]}).first() for row in rows]
        now = self._clock.now()
        return [
            Occurrence(
                DeployedAgent(place.environment, row["service"], row["agent"]),
                place.trace_id,
                place.session_id,
                place.seen_at,
                _problem(row, row["severity"], now),
            )
            for row, place in zip(rows, last, strict=True)
            if place is not None
        ]

    def seen_regressions(self) -> set[tuple[str | None, str]]:
        """Return the agents and versions of which an alarm has said that they are worse."""
        query = select(alarms.c.agent, alarms.c.what).where(own(alarms), alarms.c.kind == AlarmKind.REGRESSION)
        return {(row.agent, row.what) for row in self._database.rows(query)}

    def marks(self, problem_ids: Collection[str]) -> dict[str, tuple[bool, bool]]:
        """Return of each known problem whether it is muted, and whether it is resolved."""
        query = select(problems.c.problem_id, problems.c.muted_until, problems.c.resolved_at)
        query = query.where(own(problems), among(problems.c.problem_id, "ids"))
        now = self._clock.now()
        return {
            row.problem_id: ((row.muted_until or 0) > now, row.resolved_at is not None)
            for row in self._database.rows(query, ids(problem_ids))
        }

    def write(self, changed: Iterable[AgentAlarm], learnt: Iterable[Learnt], scored_at: int, erased: str) -> None:
        """Keep alarms, what was learnt, and how far the look came, all of it or nothing.

        Raises Outdated if a deletion has removed something since `erased` was read: this may be about what is gone.
        """
        with self._database.writing() as connection:
            if _erased(connection) != erased:
                raise Outdated("a deletion has removed traces")
            for alarm in changed:
                connection.upsert(alarms, [_row_of(alarm)])
                of_alarm = own(alarm_examples), alarm_examples.c.alarm_id == alarm.alarm_id
                connection.execute(delete(alarm_examples).where(*of_alarm))
                # Numbered, so that they keep their order.
                connection.upsert(
                    alarm_examples,
                    [
                        {"alarm_id": alarm.alarm_id, "trace_id": trace_id, "seen_at": number}
                        for number, trace_id in enumerate(dict.fromkeys(alarm.examples))
                    ],
                )
            connection.upsert(
                alarm_watches,
                [{**_texts(row.watched), "learnt": row.learnt, "seen_at": row.seen_at} for row in learnt],
            )
            connection.upsert(alarm_progress, [{"scored_at": scored_at, "digested_at": None}])

    def unannounced(self, since: int) -> list[tuple[AgentAlarm, str]]:
        """Return the alarms that began or ended since (ns) and whose state no notification gave, with the state that
        one gave before."""
        changed = select(alarms).where(
            own(alarms), alarms.c.notice != alarms.c.state, or_(alarms.c.since >= since, alarms.c.until >= since)
        )
        with self._database.snapshot() as connection:
            rows = connection.execute(changed.order_by(alarms.c.since)).mappings().all()
            return list(zip(_alarms(connection, rows), (row["notice"] for row in rows), strict=True))

    def announce(self, given: Iterable[AgentAlarm], digested_at: int | None) -> None:
        """Note that notifications gave the states of these alarms, and when the last digest was sent, if one was."""
        given = list(given)
        if not given and digested_at is None:
            return
        with self._database.writing() as connection:
            for alarm in given:
                mine = own(alarms), alarms.c.alarm_id == alarm.alarm_id
                connection.execute(update(alarms).where(*mine).values(notice=alarm.state))
            if digested_at is not None:
                connection.execute(update(alarm_progress).where(own(alarm_progress)).values(digested_at=digested_at))

    def digested_at(self) -> int | None:
        """Return when the last digest was due (ns); None before the first one."""
        at: int | None = self._database.value(select(alarm_progress.c.digested_at).where(own(alarm_progress)))
        return at

    def trim(self) -> None:
        """Forget the alarms and the agents that are too many. An alarm that fires stays."""
        with self._database.writing() as connection:
            old = select(alarms.c.alarm_id).where(own(alarms), alarms.c.state != AlarmState.FIRING)
            gone = connection.execute(old.order_by(alarms.c.since.desc()).offset(MOST_ALARMS)).scalars().all()
            for table in (alarm_examples, alarms):
                condition = own(table), among(table.c.alarm_id, "ids")
                connection.execute(delete(table).where(*condition), ids(gone))
            idle = select(alarm_watches).where(own(alarm_watches)).order_by(alarm_watches.c.seen_at.desc())
            connection.delete(
                alarm_watches,
                (
                    {"environment": row.environment, "service": row.service, "agent": row.agent}
                    for row in connection.execute(idle.offset(MOST_WATCHES))
                ),
            )

    def _problems(self, connection: TenantConnection, trace_ids: Sequence[str]) -> dict[str, list[TraceProblem]]:
        found: dict[str, list[TraceProblem]] = defaultdict(list)
        now = self._clock.now()
        for row in connection.execute(_PROBLEMS, ids(trace_ids)).mappings():
            found[row["subject_id"]].append(_problem(row, row["occurred_as"], now))
        return found

    def _marks(self, connection: TenantConnection, problem_ids: Collection[str]) -> dict[str, TraceProblem]:
        query = select(problems).where(own(problems), among(problems.c.problem_id, "ids"))
        now = self._clock.now()
        rows = connection.execute(query, ids(problem_ids)).mappings()
        return {row["problem_id"]: _problem(row, row["severity"], now) for row in rows}


def read_alarms(
    connection: TenantConnection, wanted: AlarmFilter, *, limit: int, cursor: str | None
) -> Page[AgentAlarm]:
    """Return at most `limit` alarms from where the cursor points, the newest first. Raises InvalidRequest for a cursor
    of another listing."""
    query = select(alarms).where(own(alarms), *_wanted(wanted))
    page = read_page(connection, query, (alarms.c.since, alarms.c.alarm_id), limit=limit, cursor=cursor)
    return Page(items=_alarms(connection, page.items), next_cursor=page.next_cursor)


def read_firing(connection: TenantConnection) -> list[AgentAlarm]:
    """Return the alarms that fire, the newest first."""
    query = select(alarms).where(own(alarms), alarms.c.state == literal_column("'firing'"))
    rows = connection.execute(query.order_by(alarms.c.since.desc(), alarms.c.alarm_id)).mappings()
    return _alarms(connection, rows.all())


def _wanted(wanted: AlarmFilter) -> list[ColumnElement[bool]]:
    columns = {"state": wanted.state, "agent": wanted.agent, "environment": wanted.environment}
    conditions = [alarms.c[name] == value for name, value in columns.items() if value is not None]
    if wanted.since is not None:
        conditions.append(or_(alarms.c.until.is_(None), alarms.c.until >= wanted.since))
    return conditions


def _alarms(connection: TenantConnection, rows: Sequence[Mapping[Any, Any]]) -> list[AgentAlarm]:
    examples: dict[str, list[str]] = defaultdict(list)
    if rows:
        for example in connection.execute(_EXAMPLES, ids(row["alarm_id"] for row in rows)):
            examples[example.alarm_id].append(example.trace_id)
    return [
        AgentAlarm(
            alarm_id=row["alarm_id"],
            key=AlarmKey(
                DeployedAgent(row["environment"], row["service"], row["agent"]), ALARM_KINDS[row["kind"]], row["what"]
            ),
            severity=AlarmSeverity(row["severity"]),
            state=AlarmState(row["state"]),
            **{name: row[name] for name in ("owner", "since", "until", "title", "evidence", "problem_id")},
            examples=examples[row["alarm_id"]],
        )
        for row in rows
    ]


def _erased(connection: TenantConnection) -> str:
    return to_json([[row.deletion_id, row.removed] for row in connection.execute(_LAST_DELETIONS)])


def _row_of(alarm: AgentAlarm) -> Values:
    plain = ("alarm_id", "severity", "owner", "state", "since", "until", "title", "evidence", "problem_id")
    key = {"kind": alarm.key.kind, "what": alarm.key.what, **alarm.key.watched._asdict()}
    return {**{name: getattr(alarm, name) for name in plain}, **key, "notice": ""}


def _problem(row: Mapping[Any, Any], severity: str, now: int) -> TraceProblem:
    key = ProblemKey(row["agent"], row["service"], row["kind"], row["tool"], row["shape"])
    return TraceProblem(
        row["problem_id"],
        row["kind"],
        row["tool"],
        severity,
        key.title,
        row["first_seen"],
        row["regressed_at"],
        (row["muted_until"] or 0) > now,
    )


def _unmarked(key: ProblemKey, row: Mapping[Any, Any]) -> TraceProblem:
    """Return the problem of a loop that the sums of problems do not have yet."""
    return TraceProblem(
        key.problem_id, key.kind, key.tool, row["severity"], key.title, row["found_at"], None, is_muted=False
    )


def _texts(watched: DeployedAgent) -> dict[str, str]:
    return {name: value or "" for name, value in watched._asdict().items()}


def _named(*names: str) -> DeployedAgent:
    return DeployedAgent(*(name or None for name in names))


_SCORED: Final = (
    select(
        *(traces.c[name] for name in ("trace_id", "session_id", "agent", "service", "service_version", "scored_at")),
        traces.c.effort,
        sessions.c.environment,
        sessions.c.effort.label("session_effort"),
    )
    .join(sessions, matching(sessions, traces, "session_id"))
    .where(
        own(traces),
        # Names both values, because the index leads to the time by way of them.
        traces.c.has_content.in_([literal_column("true"), literal_column("false")]),
        traces.c.scored_at > bindparam("after"),
        traces.c.scored_at <= bindparam("until"),
    )
    .order_by(traces.c.scored_at, traces.c.trace_id)
    .limit(bindparam("most"))
)
_VIEWS: Final = select(trace_views.c.trace_id, trace_views.c.view).where(
    own(trace_views), among(trace_views.c.trace_id, "ids"), func.length(trace_views.c.view) <= bindparam("largest")
)
_LOOPS: Final = (
    select(findings)
    .where(
        own(findings),
        findings.c.mode == literal_column("'alarm'"),
        findings.c.found_at > bindparam("after"),
        findings.c.found_at <= bindparam("until"),
    )
    .order_by(findings.c.found_at)
    .limit(bindparam("most"))
)
_PROBLEMS: Final = (
    select(problem_traces.c.subject_id, problem_traces.c.severity.label("occurred_as"), problems)
    .join(problems, matching(problems, problem_traces, "problem_id"))
    .where(own(problem_traces), among(problem_traces.c.subject_id, "ids"))
)
_NEW_PROBLEMS: Final = (
    select(problems)
    .where(own(problems), or_(problems.c.first_seen > bindparam("since"), problems.c.regressed_at > bindparam("since")))
    .order_by(problems.c.last_seen)
    .limit(bindparam("most"))
)
# A query for each of the few: in one, the database would read all occurrences.
_LAST: Final = (
    select(
        problem_traces.c.trace_id,
        problem_traces.c.session_id,
        problem_traces.c.seen_at,
        sessions.c.environment,
    )
    .join(sessions, matching(sessions, problem_traces, "session_id"))
    .where(
        own(problem_traces),
        problem_traces.c.problem_id == bindparam("problem", type_=String),
        problem_traces.c.trace_id.is_not(None),
    )
    .order_by(problem_traces.c.seen_at.desc())
    .limit(1)
)
_LAST_DELETIONS: Final = (
    select(deletions.c.deletion_id, deletions.c.removed)
    .where(own(deletions))
    .order_by(deletions.c.asked_at.desc(), deletions.c.deletion_id)
    .limit(20)
)
_EXAMPLES: Final = (
    select(alarm_examples.c.alarm_id, alarm_examples.c.trace_id)
    .where(own(alarm_examples), among(alarm_examples.c.alarm_id, "ids"))
    .order_by(alarm_examples.c.alarm_id, alarm_examples.c.seen_at)
)
