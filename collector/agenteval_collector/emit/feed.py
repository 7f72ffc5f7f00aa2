"""The watch feed: every committed evaluation and every verdict, to whoever listens at that moment."""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from threading import Condition, Lock
from types import TracebackType
from typing import Final, Self, TypeAlias

from agenteval_collector.emit.collector import CollectorTelemetry
from agenteval_collector.errors import Overloaded, Unavailable
from agenteval_collector.pipeline import CommittedEvaluation, FoundVerdict
from otel_agenteval.outcome import Evaluation

_QUEUE: Final = "watch"


@dataclass(frozen=True, slots=True)
class Lost:
    """So many events were lost at this point, because their reader was too slow."""

    count: int


Event: TypeAlias = Evaluation | FoundVerdict
FeedItem: TypeAlias = Event | Lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """What a watcher asked for: only `session_id`, only evaluators called `names`, where they are given; with
    `process_id` only verdicts, on traces with spans of that process."""

    session_id: str | None = None
    names: frozenset[str] = frozenset()
    process_id: str | None = None

    def covers(self, event: Event) -> bool:
        """Whether the watcher wants the event."""
        if isinstance(event, FoundVerdict):
            about = self.process_id is None or self.process_id in event.processes
            session_id, name = event.verdict.session_id, event.verdict.name
        else:
            about = self.process_id is None
            session_id, name = event.session_id, event.name
        return about and self.session_id in (None, session_id) and (not self.names or name in self.names)


class Subscription:
    """What one watcher has not read yet: at most `capacity` events, of which the oldest give way to new ones.

    Thread-safe. To be closed when the watcher leaves; usable as a context manager.
    """

    def __init__(self, feed: "Feed", interest: Interest, capacity: int) -> None:
        self._feed = feed
        self._interest = interest
        self._capacity = capacity
        self._waiting: deque[Event] = deque()
        self._lost = 0
        self._closed = False
        self._changed = Condition()

    @property
    def closed(self) -> bool:
        """Whether nothing more will be added; what was added before can still be read."""
        return self._closed

    def get(self, timeout: float) -> FeedItem | None:
        """The next event, or how many were lost before it.

        None when nothing came within `timeout` seconds, or the subscription is closed and read to its end.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, timeout)
            if self._lost:
                lost, self._lost = self._lost, 0
                return Lost(lost)
            return self._waiting.popleft() if self._waiting else None

    def close(self) -> None:
        """Leave the feed and wake whoever waits in `get`. May be called more than once."""
        self._feed._leave(self)
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _offer(self, events: Sequence[Event]) -> int:
        """Add those that the watcher asked for; returns how many older ones were lost for them."""
        wanted = [event for event in events if self._interest.covers(event)]
        if not wanted:
            return 0
        with self._changed:
            self._waiting.extend(wanted)
            lost = max(0, len(self._waiting) - self._capacity)
            for _ in range(lost):
                self._waiting.popleft()
            self._lost += lost
            self._changed.notify_all()
        return lost

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Feed:
    """An EvaluationSink that gives every event, verdicts too, to all watchers; a slow watcher delays nobody.

    `capacity` bounds what waits for one watcher, `watchers` how many there may be.
    """

    def __init__(self, telemetry: CollectorTelemetry, *, capacity: int = 1024, watchers: int = 100) -> None:
        if capacity < 1 or watchers < 1:
            raise ValueError(f"capacity {capacity} and watchers {watchers} must be at least 1")
        self._telemetry = telemetry
        self._capacity = capacity
        self._watchers = watchers
        self._subscriptions: set[Subscription] = set()
        self._closed = False
        # Guards the set against watchers that come and go while evaluations are handed out.
        self._lock = Lock()

    def subscribe(
        self, session_id: str | None = None, names: Collection[str] = (), process_id: str | None = None
    ) -> Subscription:
        """Watch from now on what `Interest` says of these.

        Raises Overloaded when there are too many watchers, Unavailable once the feed is closed.
        """
        interest = Interest(session_id=session_id, names=frozenset(names), process_id=process_id)
        subscription = Subscription(self, interest, self._capacity)
        with self._lock:
            if self._closed:
                raise Unavailable("the collector is stopping; watch again when it is back")
            if len(self._subscriptions) >= self._watchers:
                raise Overloaded(f"{self._watchers} watchers are connected already, no more are allowed")
            self._subscriptions.add(subscription)
        return subscription

    def accept(self, evaluations: Sequence[CommittedEvaluation]) -> None:
        # A final score was handed out when it was found.
        self._offer([committed.evaluation for committed in evaluations if not committed.final])

    def tell(self, verdicts: Sequence[FoundVerdict]) -> None:
        self._offer(verdicts)

    def close(self) -> None:
        """End every subscription; there will be no new ones."""
        with self._lock:
            self._closed = True
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            subscription.close()

    def _offer(self, events: Sequence[Event]) -> None:
        with self._lock:
            subscriptions = list(self._subscriptions)
        lost = sum(subscription._offer(events) for subscription in subscriptions)
        if lost:
            self._telemetry.dropped(_QUEUE, lost)

    def _leave(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions.discard(subscription)
