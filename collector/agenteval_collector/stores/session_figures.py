"""Count the sessions that go on, and those of them that score low; read how the newest ones ended."""

import json
from collections import Counter
from typing import Final

from sqlalchemy import Integer, and_, cast, func, or_, select

from agenteval_collector.model.reports import LabelSource
from agenteval_collector.model.sessions import PastSession, SessionEnd, SessionLevel
from agenteval_collector.runtime.json_lists import among
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.judged import gone_on
from agenteval_collector.stores.schema import labels, outcomes, own, run_reports, run_traces, sessions, traces
from otel_agenteval.outcome import JudgedPart, Method, Status, SubjectKind

_LIVE = (own(sessions), or_(sessions.c.finalized_at.is_(None), sessions.c.session_id.in_(gone_on())))
_WHOSE = (sessions.c.agent, sessions.c.services)
_ACTIVE = select(*_WHOSE, func.count().label("active")).where(*_LIVE).group_by(*_WHOSE)
_IS_SCORE = and_(
    outcomes.c.tenant == sessions.c.tenant,
    outcomes.c.subject == SubjectKind.SESSION,
    outcomes.c.subject_id == sessions.c.session_id,
    outcomes.c.revision == sessions.c.revision,
    outcomes.c.method == Method.EXACT,
    outcomes.c.part == JudgedPart.RANDOM,
)
_SCORED = (
    select(*_WHOSE, outcomes.c.name, outcomes.c.success, func.count().label("active"))
    .join(outcomes, _IS_SCORE)
    .where(*_LIVE)
    .group_by(*_WHOSE, outcomes.c.name, outcomes.c.success)
)


def read_levels(connection: TenantConnection) -> list[SessionLevel]:
    """Return how many sessions of each agent go on, whichever process evaluates them, and by score how many of them
    were drawn at random for the judge, and are low."""
    active: Counter[tuple[str | None, str | None, str | None]] = Counter()
    low: Counter[tuple[str | None, str | None, str | None]] = Counter()
    for row in connection.execute(_ACTIVE):
        active[row.agent, _first(row.services), None] += row.active
    for row in connection.execute(_SCORED):
        whose = row.agent, _first(row.services), row.name
        active[whose] += row.active
        low[whose] += row.active if row.success is False else 0
    return [
        SessionLevel(agent=whose[0], service=whose[1], evaluator=whose[2], active=count, low=low[whose])
        for whose, count in active.items()
    ]


def _first(services: str) -> str | None:
    names: list[str] = json.loads(services)
    return names[0] if names else None


def read_past(connection: TenantConnection, limit: int) -> list[PastSession]:
    """Return the counted scores of the `limit` sessions that were over last, the oldest first: of those that were drawn
    at random for the judge."""
    over = select(sessions.c.tenant, sessions.c.session_id, sessions.c.finalized_at)
    over = over.where(own(sessions), sessions.c.finalized_at.is_not(None))
    last = over.order_by(sessions.c.finalized_at.desc()).limit(limit).subquery()
    query = (
        select(outcomes.c.agent, outcomes.c.service, outcomes.c.name, outcomes.c.success)
        .join(last, and_(outcomes.c.tenant == last.c.tenant, outcomes.c.subject_id == last.c.session_id))
        .where(outcomes.c.subject == SubjectKind.SESSION, outcomes.c.part == JudgedPart.RANDOM, outcomes.c.counted)
        .order_by(last.c.finalized_at)
    )
    rows = connection.execute(query).all()
    return [PastSession(row.agent, row.service, row.name, row.success is False) for row in rows]


COMPLETED: Final = "task_completion"
NEWEST: Final = 500
"""Sessions of the agent that are looked at: what it costs is bounded."""

_JUDGED: Final = (
    select(outcomes.c.session_id, func.min(cast(outcomes.c.success, Integer)) == 1)
    .where(
        own(outcomes),
        among(outcomes.c.session_id, "ids"),
        outcomes.c.subject == SubjectKind.TRACE,
        outcomes.c.name == COMPLETED,
        outcomes.c.method == Method.LLM,
        outcomes.c.part == JudgedPart.RANDOM,
        outcomes.c.status == Status.SCORED,
        outcomes.c.success.is_not(None),
    )
    .group_by(outcomes.c.session_id)
)
_LABELLED: Final = (
    select(traces.c.session_id, func.min(labels.c.value))
    .join(labels, and_(labels.c.tenant == traces.c.tenant, labels.c.trace_id == traces.c.trace_id))
    .where(
        own(traces),
        among(traces.c.session_id, "ids"),
        labels.c.name == COMPLETED,
        labels.c.source == LabelSource.PERSON,
    )
    .group_by(traces.c.session_id)
)
_OF_RUN: Final = [
    run_traces.c[name] for name in ("session_id", "task_id", "run_id", "condition", "agent", "service_version")
]
_RUNS: Final = (
    select(*_OF_RUN, (func.min(cast(run_traces.c.success, Integer)) == 1).label("spoken"))
    .join_from(
        traces, run_traces, and_(run_traces.c.tenant == traces.c.tenant, run_traces.c.trace_id == traces.c.trace_id)
    )
    .where(own(traces), among(traces.c.session_id, "ids"))
    .group_by(*_OF_RUN)
    .subquery()
)
_SUCCESS: Final = func.coalesce(run_reports.c.success, _RUNS.c.spoken)
_REPORTED: Final = (
    select(_RUNS.c.session_id, _SUCCESS)
    .join_from(
        _RUNS,
        run_reports,
        and_(
            own(run_reports),
            run_reports.c.success.is_not(None),
            *(run_reports.c[name] == _RUNS.c[name] for name in ("task_id", "run_id", "condition")),
            or_(run_reports.c.agent == "", run_reports.c.agent == _RUNS.c.agent),
            or_(run_reports.c.service_version == "", run_reports.c.service_version == _RUNS.c.service_version),
        ),
        isouter=True,
    )
    .where(_SUCCESS.is_not(None))
    .order_by(run_reports.c.reported_at.nulls_first())  # Those without a report come first.
)
"""The reported success of a session's runs, the newest last; where none was reported, what its spans say."""


def read_ends(connection: TenantConnection, agent: str, *, newest: int = NEWEST) -> list[SessionEnd]:
    """Return the ends of the agent's `newest` sessions, as far as anything is said of them."""
    query = (
        select(sessions.c.session_id, sessions.c.errors)
        .where(own(sessions), sessions.c.agent == agent)
        .order_by(sessions.c.last_seen_at.desc())
        .limit(newest)
    )
    ends = {row.session_id: SessionEnd(has_error=row.errors > 0) for row in connection.execute(query)}
    for field, said in (("judged", _JUDGED), ("labelled", _LABELLED), ("reported", _REPORTED)):
        for session_id, value in connection.execute(said, ids(ends)):
            ends[session_id] = ends[session_id]._replace(**{field: value})
    return list(ends.values())
