"""Count the sessions that go on, and those of them that score low."""

import json
from collections import Counter

from sqlalchemy import and_, func, or_, select

from agenteval_collector.model.sessions import SessionLevel
from agenteval_collector.stores.access import TenantDatabase
from agenteval_collector.stores.goals import gone_on
from agenteval_collector.stores.schema import outcomes, own, sessions
from otel_agenteval.outcome import Method, Part, Subject

_LIVE = (own(sessions), or_(sessions.c.finalized_at.is_(None), sessions.c.session_id.in_(gone_on())))
_WHOSE = (sessions.c.agent, sessions.c.services)
_ACTIVE = select(*_WHOSE, func.count().label("active")).where(*_LIVE).group_by(*_WHOSE)
_IS_SCORE = and_(
    outcomes.c.tenant == sessions.c.tenant,
    outcomes.c.subject == Subject.SESSION,
    outcomes.c.subject_id == sessions.c.session_id,
    outcomes.c.revision == sessions.c.revision,
    outcomes.c.method == Method.EXACT,
    outcomes.c.part == Part.RANDOM,
)
_SCORED = (
    select(*_WHOSE, outcomes.c.name, outcomes.c.success, func.count().label("active"))
    .join(outcomes, _IS_SCORE)
    .where(*_LIVE)
    .group_by(*_WHOSE, outcomes.c.name, outcomes.c.success)
)


class SessionLevelStore:
    """The levels of all sessions that go on, whichever process evaluates them. Raises Unavailable."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def levels(self) -> list[SessionLevel]:
        """Return how many sessions of each agent go on, and by score how many of them were drawn at random for the
        judge, and are low."""
        active: Counter[tuple[str | None, str | None, str | None]] = Counter()
        low: Counter[tuple[str | None, str | None, str | None]] = Counter()
        with self._database.snapshot() as connection:
            for row in connection.execute(_ACTIVE):
                active[row.agent, _first(row.services), None] += row.active
            for row in connection.execute(_SCORED):
                whose = row.agent, _first(row.services), row.name
                active[whose] += row.active
                low[whose] += row.active if row.success is False else 0
        return [
            SessionLevel(
                agent=agent, service=service, evaluator=evaluator, active=count, low=low[agent, service, evaluator]
            )
            for (agent, service, evaluator), count in active.items()
        ]


def _first(services: str) -> str | None:
    names: list[str] = json.loads(services)
    return names[0] if names else None
