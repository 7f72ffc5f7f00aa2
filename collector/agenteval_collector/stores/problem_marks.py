"""Keep the marks that people set on problems: resolved, or muted until a time."""

from collections.abc import Mapping

from sqlalchemy import update

from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores.access import TenantDatabase
from agenteval_collector.stores.schema import own, problems


class ProblemMarks:
    """Marks problems; durable when a method returns. Raises Unavailable where the file refuses. Thread-safe."""

    def __init__(self, database: TenantDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def resolve(self, problem_id: str, by: str | None) -> bool:
        """Mark a problem as resolved, so that its next occurrence is a regression. Returns whether it is known."""
        now = self._clock.now()
        resolved = {"resolved_at": now, "resolved_by": by, "regressed_at": None}
        return self._mark(problem_id, {**resolved, "muted_until": None, "muted_by": None})

    def mute(self, problem_id: str, until: int | None, by: str | None) -> bool:
        """Mute a problem until that time (ns), or no longer where it is None. Returns whether it is known."""
        return self._mark(problem_id, {"muted_until": until, "muted_by": None if until is None else by})

    def _mark(self, problem_id: str, values: Mapping[str, str | int | None]) -> bool:
        mine = update(problems).where(own(problems), problems.c.problem_id == problem_id)
        with self._database.sharing() as connection:
            connection.lock_sums()
            return connection.execute(mine.values(values)).rowcount > 0
