"""Look up the sessions of which the judge is to say whether their goal was reached."""

from collections.abc import Sequence

from sqlalchemy import and_, exists, select

from agenteval_collector.model.judging import GOAL_SUCCESS
from agenteval_collector.model.sessions import SessionRecord
from agenteval_collector.runtime.database import among
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.rows import session_record
from agenteval_collector.stores.schema import outcomes, own, sessions
from otel_agenteval.outcome import Subject

_SAME = and_(
    outcomes.c.tenant == sessions.c.tenant,
    outcomes.c.subject == Subject.SESSION,
    outcomes.c.subject_id == sessions.c.session_id,
    outcomes.c.name == GOAL_SUCCESS,
    outcomes.c.revision == sessions.c.trace_count,
)


def read_without_goal(connection: TenantConnection, session_ids: Sequence[str]) -> list[SessionRecord]:
    """Return those of the sessions of which nothing is said yet with as many traces as they have."""
    query = select(sessions).where(own(sessions), among(sessions.c.session_id, "ids"), ~exists().where(_SAME))
    return [session_record(row) for row in connection.execute(query, ids(session_ids)).mappings()]


def read_trace_count(connection: TenantConnection, session_id: str) -> int:
    """Return the number of traces of a session; 0 where it is unknown."""
    query = select(sessions.c.trace_count).where(own(sessions), sessions.c.session_id == session_id)
    return connection.execute(query).scalar() or 0
