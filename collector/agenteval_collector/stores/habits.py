"""Keep what was learned of senders: which of their spans' parents, and which log records, come."""

from collections.abc import Mapping

from sqlalchemy import Engine, bindparam, delete, select
from sqlalchemy.dialects.sqlite import insert

from agenteval_collector.model.senders import Habit, Sender, What
from agenteval_collector.stores.access import reading, writing
from agenteval_collector.stores.schema import sender_habits

_KEY = list(sender_habits.primary_key)
_INSERT = insert(sender_habits)
_KEEP = _INSERT.on_conflict_do_update(index_elements=_KEY, set_={"history": _INSERT.excluded.history})
_FORGET = delete(sender_habits).where(*(column == bindparam(f"of_{column.name}") for column in _KEY))


class HabitStore:
    """The histories of all habits, of all tenants. Raises Unavailable where the database refuses."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def load(self) -> dict[Habit, str]:
        """All there are."""
        with reading(self._engine) as connection:
            rows = connection.execute(select(sender_habits)).all()
        return {
            Habit(Sender(row.tenant, row.service, row.scope, row.operation), What(row.what)): row.history
            for row in rows
        }

    def save(self, histories: Mapping[Habit, str]) -> None:
        """Keep these instead of what was kept of them before; one without a history is forgotten."""
        kept = [{**_key(habit), "history": history} for habit, history in histories.items() if history]
        gone = [_key(habit, "of_") for habit, history in histories.items() if not history]
        with writing(self._engine) as connection:
            if kept:
                connection.execute(_KEEP, kept)
            if gone:
                connection.execute(_FORGET, gone)


def _key(habit: Habit, prefix: str = "") -> dict[str, str]:
    named = {**habit.sender._asdict(), "what": str(habit.what)}
    return {f"{prefix}{name}": value for name, value in named.items()}
