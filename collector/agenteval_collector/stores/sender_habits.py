"""Keep what was learned about senders: which parents of their spans, and which log records, usually come."""

from collections.abc import Mapping

from sqlalchemy import select

from agenteval_collector.stores.access import TenantDatabase, delete_one
from agenteval_collector.stores.schema import own, sender_habits


class HabitStore:
    """The histories of all habits, by `Habit.digest`. Raises Unavailable if the database refuses."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def load(self) -> dict[str, str]:
        """Return all histories."""
        return {row.digest: row.history for row in self._database.rows(select(sender_habits).where(own(sender_habits)))}

    def save(self, histories: Mapping[str, str]) -> None:
        """Keep these histories in place of the old ones. A habit without a history is forgotten."""
        rows = [{"digest": digest, "history": history} for digest, history in histories.items() if history]
        with self._database.sharing("habits") as connection:
            connection.upsert(sender_habits, rows)
            for digest in (digest for digest, history in histories.items() if not history):
                connection.execute(delete_one(sender_habits), {"digest": digest})
