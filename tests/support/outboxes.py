"""An outbox in memory."""

from collections.abc import Iterable

from agenteval_collector.emit.events import events_of
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.emit.target import PushTarget
from agenteval_collector.model.news import Event, News
from agenteval_collector.stores.outbox import OutboxStore


class MemoryOutbox(OutboxStore):
    """Events in the order in which they came; `add` is what the store does in its transactions."""

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}

    def add(self, news: News) -> None:
        self._events |= {each.event_id: each for each in events_of(news)}

    def oldest(self, limit: int) -> list[Event]:
        return list(self._events.values())[:limit]

    def remove(self, events: Iterable[Event]) -> None:
        for each in events:
            self._events.pop(each.event_id)

    def drop(self, count: int) -> None:
        self.remove(self.oldest(count))

    def size(self) -> int:
        return len(self._events)


class TellingOutput(TelemetryOutput):
    """An output with an outbox in memory."""

    def __init__(self, push: PushTarget) -> None:
        self.outbox = MemoryOutbox()
        super().__init__(version="9.8.7", instance_id="i-1", push=push, outbox=self.outbox, is_on_duty=lambda: True)

    def tell(self, news: News) -> None:
        """Count the news and let its events wait, as a commit does."""
        self.evaluations.take_news(news)
        self.outbox.add(news)
