"""Look up the sessions of which the judge is to say whether their goal was reached, and what it has said."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Select, TextClause, and_, exists, func, select

from agenteval_collector.model.judging import GOAL_SUCCESS
from agenteval_collector.model.sessions import SessionRecord
from agenteval_collector.runtime.json_lists import among
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.rows import evaluation_of, session_record
from agenteval_collector.stores.schema import outcomes, own, sessions
from otel_agenteval.outcome import Evaluation, Subject

_GOAL = and_(
    outcomes.c.tenant == sessions.c.tenant,
    outcomes.c.subject == Subject.SESSION,
    outcomes.c.subject_id == sessions.c.session_id,
    outcomes.c.name == GOAL_SUCCESS,
)
_SAME = and_(_GOAL, outcomes.c.revision == sessions.c.revision)


def read_without_goal(connection: TenantConnection, session_ids: Sequence[str]) -> list[SessionRecord]:
    """Return those of the sessions of whose revision nothing is said yet."""
    query = select(sessions).where(own(sessions), among(sessions.c.session_id, "ids"), ~exists().where(_SAME))
    return [session_record(row) for row in connection.execute(query, ids(session_ids)).mappings()]


def read_goals(
    connection: TenantConnection, conditions: Sequence[ColumnElement[bool] | TextClause], limit: int
) -> list[Evaluation]:
    """Return what is said of the goals of sessions that have not gone on since, the newest first."""
    query = select(outcomes).join(sessions, _SAME).where(own(outcomes), *conditions)
    query = query.order_by(outcomes.c.evaluated_at.desc()).limit(limit)
    return [evaluation_of(row) for row in connection.execute(query).mappings()]


def read_gone_on(connection: TenantConnection) -> list[str]:
    """Return the sessions that were over once, and have gone on since something was said of their goal."""
    return list(connection.execute(gone_on()).scalars())


def gone_on() -> Select[tuple[str]]:
    """Make the query for these sessions."""
    return (
        select(sessions.c.session_id)
        .join(outcomes, _GOAL)
        .where(own(sessions), sessions.c.finalized_at.is_not(None))
        .group_by(sessions.c.session_id)
        .having(func.max(outcomes.c.revision) < func.max(sessions.c.revision))
    )


def read_session_revision(connection: TenantConnection, session_id: str) -> int | None:
    """Return the revision of a session; None where it is unknown."""
    query = select(sessions.c.revision).where(own(sessions), sessions.c.session_id == session_id)
    return connection.execute(query).scalar()
