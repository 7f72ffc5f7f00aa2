"""Read how the newest sessions ended by their scores."""

from sqlalchemy import and_, select

from agenteval_collector.model.sessions import PastSession
from agenteval_collector.stores.access import TenantDatabase
from agenteval_collector.stores.schema import outcomes, own, sessions
from otel_agenteval.outcome import Part, Subject


class PastSessionStore:
    """The sessions that are over. Raises Unavailable."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def newest(self, limit: int) -> list[PastSession]:
        """Return the counted scores of the `limit` sessions that were over last, the oldest first: of those that were
        drawn at random for the judge."""
        over = select(sessions.c.tenant, sessions.c.session_id, sessions.c.finalized_at)
        over = over.where(own(sessions), sessions.c.finalized_at.is_not(None))
        last = over.order_by(sessions.c.finalized_at.desc()).limit(limit).subquery()
        query = (
            select(outcomes.c.agent, outcomes.c.service, outcomes.c.name, outcomes.c.success)
            .join(last, and_(outcomes.c.tenant == last.c.tenant, outcomes.c.subject_id == last.c.session_id))
            .where(outcomes.c.subject == Subject.SESSION, outcomes.c.part == Part.RANDOM, outcomes.c.counted)
            .order_by(last.c.finalized_at)
        )
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return [PastSession(row.agent, row.service, row.name, row.success is False) for row in rows]
