"""Read problems: a listing in its order, a single one, or how many there are of each sort. Mark them."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Label,
    Select,
    String,
    bindparam,
    case,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    update,
)

from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.cursors import Page
from agenteval_collector.model.kept_findings import SEVERITIES
from agenteval_collector.model.problem import (
    HOURS,
    MOST_EXAMPLES,
    NEW_FOR,
    OTHER,
    QUIET_FOR,
    Problem,
    ProblemCause,
    ProblemCount,
    ProblemFilter,
    ProblemKey,
    ProblemState,
)
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores.access import TenantConnection, TenantDatabase, ids
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.paging import read_page
from agenteval_collector.stores.problems import HOUR, actor_of, hour_of
from agenteval_collector.stores.rows import FieldMap, whose
from agenteval_collector.stores.schema import (
    findings,
    matching,
    outcomes,
    own,
    problem_counts,
    problem_moves,
    problem_traces,
    problems,
    sessions,
)
from otel_agenteval.finding import Severity
from otel_agenteval.internal.text import cut
from otel_agenteval.outcome import SubjectKind

CAUSES_TRIED: Final = 20
"""The newest traces of a problem among which one is looked for that began with the usual agent and tool."""
MAX_WHAT: Final = 300
"""Characters of what went wrong."""
_OPEN: Final = len(SEVERITIES)
_FIELDS: Final = FieldMap(Problem, problems, but=("severity",))


def read_problems(
    connection: TenantConnection, wanted: ProblemFilter, *, now: int, limit: int, cursor: str | None
) -> Page[Problem]:
    """Return at most `limit` problems from where the cursor points. Open problems come first, and of these the worst.
    Of equal ones, those that were seen last come first. Raises InvalidRequest for a cursor of another listing."""
    listed = _listed(now).subquery()
    query = select(listed).where(*_conditions(listed, wanted))
    order = (listed.c.urgency, listed.c.last_seen, listed.c.problem_id)
    page = read_page(connection, query, order, limit=limit, cursor=cursor)
    return Page(items=_problems(connection, page.items, now), next_cursor=page.next_cursor)


def read_problem(connection: TenantConnection, problem_id: str, now: int) -> Problem | None:
    """Return a problem; None if it is unknown."""
    query = _listed(now).where(problems.c.problem_id == problem_id)
    return next(iter(_problems(connection, connection.execute(query).mappings().all(), now)), None)


def count_problems(connection: TenantConnection, now: int) -> list[ProblemCount]:
    """Return the number of problems of each state, severity and agent."""
    key = (_state(now), problems.c.severity, problems.c.agent, problems.c.service)
    query = select(*key, func.count()).where(own(problems)).group_by(*key)
    return [
        ProblemCount(ProblemState(state), Severity(severity), AgentKey(agent, service), count)
        for state, severity, agent, service, count in connection.execute(query)
    ]


def _listed(now: int) -> Select[Any]:
    """Make the query of all problems, each with its state and its urgency: how soon it should be looked at."""
    state = _state(now)
    severity = case({severity: rank for rank, severity in enumerate(SEVERITIES)}, value=problems.c.severity)
    # The state weighs more than the severity: each state has a range of its own.
    put_off = {ProblemState.MUTED: 1, ProblemState.RESOLVED: 0}
    urgency = case({key: rank * _OPEN for key, rank in put_off.items()}, value=state, else_=2 * _OPEN) + severity
    return select(problems, state, urgency.label("urgency")).where(own(problems))


def _state(now: int) -> Label[str]:
    return case(
        (problems.c.muted_until > now, literal(ProblemState.MUTED.value)),
        (
            or_(problems.c.resolved_at.is_not(None), problems.c.last_seen < now - QUIET_FOR),
            literal(ProblemState.RESOLVED.value),
        ),
        (problems.c.regressed_at >= now - NEW_FOR, literal(ProblemState.REGRESSED.value)),
        (problems.c.first_seen >= now - NEW_FOR, literal(ProblemState.NEW.value)),
        else_=literal(ProblemState.ONGOING.value),
    ).label("state")


def _conditions(listed: Any, wanted: ProblemFilter) -> Iterator[ColumnElement[bool]]:
    for column, value in (
        (listed.c.agent, wanted.agent),
        (listed.c.service, wanted.service),
        (listed.c.state, wanted.state),
        (listed.c.severity, wanted.severity),
    ):
        if value is not None:
            yield column == value
    if wanted.since is not None:
        yield listed.c.last_seen >= wanted.since
    if wanted.environment is not None:
        of_problem = problem_traces.c.problem_id == listed.c.problem_id
        recent = [] if wanted.since is None else [problem_traces.c.seen_at >= wanted.since]
        is_there = sessions.c.environment == wanted.environment
        in_session = matching(sessions, problem_traces, "session_id")
        yield exists().where(own(problem_traces), of_problem, *recent, in_session, is_there)
    if wanted.version is not None:
        yield exists().where(
            own(problem_counts),
            problem_counts.c.problem_id == listed.c.problem_id,
            problem_counts.c.what == "version",
            problem_counts.c.value == wanted.version,
        )


def _problems(connection: TenantConnection, rows: Sequence[Mapping[Any, Any]], now: int) -> list[Problem]:
    if not rows:
        return []
    problem_ids = ids(row["problem_id"] for row in rows)
    newest = now // HOUR
    hours = [hour_of((newest - HOURS + 1 + number) * HOUR) for number in range(HOURS)]
    trends: dict[str, dict[str, int]] = defaultdict(dict)
    versions: dict[str, dict[str, int]] = defaultdict(dict)
    actors: dict[str, dict[str, int]] = defaultdict(dict)
    followed: dict[str, dict[str, int]] = defaultdict(dict)
    for counts, query in ((trends, _HOURS), (versions, _VERSIONS), (actors, _CAUSES), (followed, _FOLLOWED)):
        for count in connection.execute(query, {**problem_ids, "hours": json.dumps(hours)}):
            counts[count.problem_id][count.value] = count.traces
    merged: dict[str, list[str]] = defaultdict(list)
    for move in connection.execute(_MERGED, problem_ids):
        merged[move.into_id].append(move.problem_id)
    items = []
    for row in rows:
        of_problem = {"problem": row["problem_id"]}
        by_version, by_hour = versions[row["problem_id"]], trends[row["problem_id"]]
        problem = Problem(
            key=ProblemKey(*whose(row), row["kind"], row["tool"], row["shape"]),
            severity=Severity(row["severity"]),
            state=ProblemState(row["state"]),
            **_FIELDS.fields_in(row),
            versions=by_version,
            # Only if a version is known: otherwise the query would look at all traces of the problem to find none.
            first_version=connection.execute(_FIRST_VERSION, of_problem).scalar() if by_version else None,
            trend=[by_hour.get(hour, 0) for hour in hours],
            examples=[scalar for scalar in connection.execute(_NEWEST, of_problem).scalars() if scalar is not None],
            cause=_cause(connection, of_problem, actors[row["problem_id"]]),
            followed=followed[row["problem_id"]],
            merged=merged[row["problem_id"]],
        )
        items.append(problem)
    return items


def _cause(
    connection: TenantConnection, of_problem: Mapping[str, str], actors: Mapping[str, int]
) -> ProblemCause | None:
    """Return the step at which a problem began, of the agent and tool that it began with most often."""
    actor = max(actors, key=lambda name: (actors[name], name), default=None)
    for row in connection.execute(_NEWEST_CAUSES, of_problem):
        step = json.loads(row.cause)
        if actor is not None and actor_of(step) == actor:
            place = {"trace": row.trace_id, "subject": row.subject_id, "kind": step["told_by"]}
            found = connection.execute(_REASON_OF_FINDING, {**place, "span": step["span_id"] or ""}).scalar()
            what = found or connection.execute(_REASON_OF_OUTCOME, place).scalar() or ""
            return ProblemCause(
                trace_id=row.trace_id,
                session_id=row.session_id,
                what=cut(what, MAX_WHAT),
                traces=actors[actor],
                **step,
            )
    return None


_COUNTS: Final = select(problem_counts).where(own(problem_counts), among(problem_counts.c.problem_id, "ids"))
_HOURS: Final = _COUNTS.where(problem_counts.c.what == "hour", among(problem_counts.c.value, "hours"))
_MERGED: Final = (
    select(problem_moves.c.into_id, problem_moves.c.problem_id)
    .where(own(problem_moves), among(problem_moves.c.into_id, "ids"))
    .order_by(problem_moves.c.moved_at, problem_moves.c.problem_id)
)
_CAUSES: Final = _COUNTS.where(problem_counts.c.what == "cause")
_FOLLOWED: Final = _COUNTS.where(problem_counts.c.what == "followed").order_by(
    problem_counts.c.traces.desc(), problem_counts.c.value
)
_VERSIONS: Final = _COUNTS.where(problem_counts.c.what == "version").order_by(problem_counts.c.value)


# Made once: a page has many problems, and making a statement takes longer than running it.
_OF_PROBLEM = select(problem_traces).where(
    own(problem_traces), problem_traces.c.problem_id == bindparam("problem", type_=String)
)
_NEWEST = _OF_PROBLEM.with_only_columns(problem_traces.c.trace_id).order_by(problem_traces.c.seen_at.desc())
_NEWEST = _NEWEST.limit(MOST_EXAMPLES)
_NEWEST_CAUSES = (
    _OF_PROBLEM.with_only_columns(
        *(problem_traces.c[name] for name in ("cause", "trace_id", "subject_id", "session_id"))
    )
    .order_by(problem_traces.c.seen_at.desc())
    .limit(CAUSES_TRIED)
)
_REASON_OF_FINDING = (
    select(findings.c.reason)
    .where(
        own(findings),
        findings.c.trace_id == bindparam("trace", type_=String),
        findings.c.kind == bindparam("kind"),
        findings.c.span_id == bindparam("span"),
    )
    .order_by(findings.c.nth)
    .limit(1)
)
_REASON_OF_OUTCOME = (
    select(outcomes.c.reason)
    .where(
        own(outcomes),
        # Names every subject, because the primary key leads to the ids by way of the subject.
        outcomes.c.subject.in_([literal_column(f"'{subject}'") for subject in SubjectKind]),
        outcomes.c.subject_id == bindparam("subject", type_=String),
        outcomes.c.name == bindparam("kind"),
    )
    .limit(1)
)
_VERSIONS_BY_TIME = _OF_PROBLEM.with_only_columns(problem_traces.c.service_version).order_by(problem_traces.c.seen_at)
_FIRST_VERSION = _VERSIONS_BY_TIME.where(problem_traces.c.service_version.is_not(None)).limit(1)


_SHAPES: Final = (
    select(*(problems.c[name] for name in ProblemKey._fields))
    .where(
        own(problems),
        problems.c.kind == bindparam("kind"),
        problems.c.agent.is_not_distinct_from(bindparam("agent")),
        problems.c.service.is_not_distinct_from(bindparam("service")),
    )
    .order_by(problems.c.first_seen, problems.c.problem_id)
)


class ProblemMarks:
    """Marks problems, and tells their shapes. A mark is durable when its method returns. Thread-safe; raises
    Unavailable if the database refuses."""

    def __init__(self, database: TenantDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def shapes(self, agent: AgentKey, kind: str) -> Sequence[str]:
        """Return the shapes of an agent's problems of this kind, without those that hold others or a single text."""
        found = self._database.rows(_SHAPES, {"kind": kind, "agent": agent.agent, "service": agent.service})
        keys = [ProblemKey._make(row) for row in found]
        return [key.shape for key in keys if key.shape not in ("", OTHER) and key.split_from is None]

    def resolve(self, problem_id: str, by: str | None) -> bool:
        """Mark a problem as resolved, so that its next occurrence is a regression. Return whether the problem is
        known."""
        now = self._clock.now()
        resolved = {"resolved_at": now, "resolved_by": by, "regressed_at": None}
        return self._mark(problem_id, {**resolved, "muted_until": None, "muted_by": None})

    def mute(self, problem_id: str, until: int | None, by: str | None) -> bool:
        """Mute a problem until that time (ns), or end the mute if the time is None. Return whether the problem is
        known."""
        return self._mark(problem_id, {"muted_until": until, "muted_by": None if until is None else by})

    def _mark(self, problem_id: str, values: Mapping[str, str | int | None]) -> bool:
        mine = update(problems).where(own(problems), problems.c.problem_id == problem_id)
        with self._database.sharing() as connection:
            connection.lock_sums()
            return connection.execute(mine.values(values)).rowcount > 0
