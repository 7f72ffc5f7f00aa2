"""The events that have not arrived at the backend yet. Each is written in the transaction of what it tells of, so that
no crash loses it."""

import json
from collections.abc import Iterable

from sqlalchemy import delete, func, select

from agenteval_collector.model.news import Event, EventsOf, News
from agenteval_collector.stores.access import TenantConnection, TenantDatabase, ids
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.rows import FieldMap, to_json
from agenteval_collector.stores.schema import data_columns, outbox, own

_FIELDS = FieldMap(Event, outbox, but=("attributes",))


class OutboxStore:
    """The events that have not arrived yet. Thread-safe; every method raises Unavailable if the database refuses."""

    def __init__(self, database: TenantDatabase, events_of: EventsOf) -> None:
        self._database = database
        self._events_of = events_of

    def write(self, connection: TenantConnection, news: News) -> None:
        """Keep the events of `news`. Call this in the transaction that makes it news."""
        rows = [
            {**_FIELDS.columns_of(event), "attributes": to_json(event.attributes)} for event in self._events_of(news)
        ]
        connection.upsert(outbox, rows)

    def oldest(self, limit: int) -> list[Event]:
        """Return the `limit` oldest events."""
        query = select(*data_columns(outbox)).where(own(outbox)).order_by(outbox.c.at).limit(limit)
        rows = self._database.mappings(query)
        return [Event(**_FIELDS.fields_in(row), attributes=json.loads(row["attributes"])) for row in rows]

    def remove(self, events: Iterable[Event]) -> None:
        """Forget events that have arrived."""
        these = own(outbox), among(outbox.c.event_id, "ids")
        with self._database.sharing("outbox") as connection:
            connection.execute(delete(outbox).where(*these), ids(event.event_id for event in events))

    def drop(self, count: int) -> None:
        """Forget the `count` oldest events, which have not arrived."""
        oldest = select(outbox.c.event_id).where(own(outbox)).order_by(outbox.c.at).limit(count)
        with self._database.sharing("outbox") as connection:
            connection.execute(delete(outbox).where(own(outbox), outbox.c.event_id.in_(oldest)))

    def size(self) -> int:
        """Return the number of waiting events."""
        waiting: int = self._database.value(select(func.count()).select_from(outbox).where(own(outbox)))
        return waiting
