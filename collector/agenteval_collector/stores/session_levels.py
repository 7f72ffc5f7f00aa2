"""Count the sessions that go on, and those of them that score low. Read how the newest ones ended."""

from collections import Counter

from sqlalchemy import and_, func, or_, select

from agenteval_collector.model.sessions import PastSession, SessionLevel
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.judged_outcomes import gone_on
from agenteval_collector.stores.schema import matching, outcomes, own, sessions
from otel_agenteval.outcome import JudgedPart, Method, SubjectKind

_LIVE = (own(sessions), or_(sessions.c.finalized_at.is_(None), sessions.c.session_id.in_(gone_on())))
_WHOSE = (sessions.c.agent, sessions.c.service)
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
    """Return how many sessions of each agent go on, whichever process evaluates them. For each score, also return how
    many of them were drawn at random for the judge, and how many of these are low."""
    active: Counter[tuple[str | None, str | None, str | None]] = Counter()
    low: Counter[tuple[str | None, str | None, str | None]] = Counter()
    for row in connection.execute(_ACTIVE):
        active[row.agent, row.service or None, None] += row.active
    for row in connection.execute(_SCORED):
        whose = row.agent, row.service or None, row.name
        active[whose] += row.active
        low[whose] += row.active if row.success is False else 0
    return [
        SessionLevel(agent=whose[0], service=whose[1], evaluator=whose[2], active=count, low=low[whose])
        for whose, count in active.items()
    ]


def read_past(connection: TenantConnection, limit: int) -> list[PastSession]:
    """Return the counted scores of the `limit` sessions that were over last, the oldest first. Only the scores of
    sessions drawn at random for the judge are returned."""
    over = select(sessions.c.tenant, sessions.c.session_id, sessions.c.finalized_at)
    over = over.where(own(sessions), sessions.c.finalized_at.is_not(None))
    last = over.order_by(sessions.c.finalized_at.desc()).limit(limit).subquery()
    query = (
        select(outcomes.c.agent, outcomes.c.service, outcomes.c.name, outcomes.c.success)
        .join(last, matching(outcomes, last, "subject_id", "session_id"))
        .where(outcomes.c.subject == SubjectKind.SESSION, outcomes.c.part == JudgedPart.RANDOM, outcomes.c.counted)
        .order_by(last.c.finalized_at)
    )
    rows = connection.execute(query).all()
    return [PastSession(row.agent, row.service, row.name, row.success is False) for row in rows]
