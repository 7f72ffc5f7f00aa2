"""Keep what was learned about senders: which parents of their spans, and which log records, usually come."""

from collections.abc import Mapping

from sqlalchemy import bindparam, delete, select

from agenteval_collector.model.senders import Awaited, Habit, Sender
from agenteval_collector.stores.access import TenantDatabase
from agenteval_collector.stores.schema import sender_habits

_FORGET = delete(sender_habits).where(*(column == bindparam(column.name) for column in sender_habits.primary_key))


class HabitStore:
    """The histories of all habits, of all tenants. Raises Unavailable if the database refuses."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def load(self) -> dict[Habit, str]:
        """Return all histories."""
        return {
            Habit(Sender(row.tenant, row.service, row.scope, row.operation), Awaited(row.what)): row.history
            for row in self._database.rows(select(sender_habits))
        }

    def save(self, histories: Mapping[Habit, str]) -> None:
        """Keep these histories in place of the old ones. A habit without a history is forgotten."""
        rows = [{**_key(habit), "history": history} for habit, history in histories.items() if history]
        with self._database.sharing("habits") as connection:
            connection.upsert(sender_habits, rows)
            for habit in (habit for habit, history in histories.items() if not history):
                connection.execute(_FORGET, _key(habit))


def _key(habit: Habit) -> dict[str, str]:
    return {**habit.sender._asdict(), "what": str(habit.what)}
