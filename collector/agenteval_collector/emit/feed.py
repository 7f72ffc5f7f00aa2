"""The watch feed: evaluations and live findings for all watchers, and recent alarms for those who were away."""

import logging
from collections import deque
from collections.abc import Callable, Collection, Container, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from threading import Condition, Lock
from typing import Final, TypeAlias

from agenteval_collector.emit.ports import ProcessesIn
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.news import News
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import RetryableError, Unavailable
from otel_agenteval.detectors import LOOP_EVALUATOR, LOOP_KINDS
from otel_agenteval.finding import Finding
from otel_agenteval.lru import LruMap
from otel_agenteval.outcome import Evaluation, Method, SubjectKind

MAX_ALARMS: Final = 1024
"""Alarms that are remembered for watchers that were away, the newest."""
MAX_MISSED: Final = 256
"""Missed alarms that a watcher is told of, the newest."""
_QUEUE: Final = "watch"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lost:
    """A number of events that were lost at this point, because their reader was too slow."""

    count: int


FeedEntry: TypeAlias = Evaluation | Finding
FeedItem: TypeAlias = FeedEntry | Lost
_Participants: TypeAlias = Callable[[str], Container[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """A watcher's choice of events: only `session_id`, only evaluators called `names`, where they are given.

    Loops have the name of their evaluator, other findings that of their kind. With `process_id` only what is wrong with
    the sessions that this process takes part in: findings, and judged scores of traces below their threshold.
    """

    session_id: str | None = None
    names: frozenset[str] = frozenset()
    process_id: str | None = None

    def covers(self, event: FeedEntry, participants: _Participants) -> bool:
        """Return whether the watcher wants the event."""
        session_id, name = event.session_id, _name(event)
        if self.session_id not in (None, session_id) or (self.names and name not in self.names):
            return False
        if self.process_id is None:
            return True
        return is_alarm(event) and self.process_id in participants(session_id)


def _name(event: FeedEntry) -> str:
    if isinstance(event, Evaluation):
        return event.name
    return LOOP_EVALUATOR if event.kind in LOOP_KINDS else event.kind


def is_alarm(event: FeedEntry) -> bool:
    """Return whether the event says that something is wrong: a finding that is told live, or a judged score of a trace
    below its threshold."""
    if isinstance(event, Finding):
        return True
    return event.method is Method.LLM and event.subject is SubjectKind.TRACE and event.success is False


def alarm_key(event: FeedEntry) -> tuple[str | None, ...]:
    """Return what tells an alarm from others, however often it is told."""
    if isinstance(event, Finding):
        return event.trace_id, event.kind, event.span_id
    return event.subject_id, event.name


class Participants:
    """The processes of a session's newest complete traces, which are `stored`, and of its `running` ones."""

    def __init__(self, stored: ProcessesIn, *running: ProcessesIn) -> None:
        self._stored = stored
        self._running = running

    def processes_in(self, session_id: str) -> frozenset[str]:
        """Return the processes in the session; without the stored ones where the store refuses. Thread-safe."""
        found = frozenset[str]().union(*(running.processes_in(session_id) for running in self._running))
        try:
            return found | self._stored.processes_in(session_id)
        except RetryableError as error:
            # Whoever is known without the store hears of it all the same.
            _logger.warning("not all processes of session %.200r are known now: %s", session_id, error)
            return found


class Subscription(AbstractContextManager["Subscription"]):
    """The events that one watcher has not read yet: at most `capacity`, of which the oldest give way to new ones.

    Findings come before the outcomes that wait, which may be hundreds, and give way after them. Thread-safe. To be
    closed when the watcher leaves; usable as a context manager.
    """

    def __init__(self, feed: "Feed", interest: Interest, capacity: int) -> None:
        self._feed = feed
        self._interest = interest
        self._capacity = capacity
        self._findings: deque[Finding] = deque()
        self._outcomes: deque[Evaluation] = deque()
        self._lost = 0
        self._closed = False
        self._changed = Condition()

    @property
    def closed(self) -> bool:
        """True once nothing more will be added; what was added before can still be read."""
        return self._closed

    def get(self, timeout: float) -> FeedItem | None:
        """Return the next event, or how many were lost before it.

        None when nothing came within `timeout` seconds, or the subscription is closed and read to its end.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._findings or self._outcomes or self._closed, timeout)
            if self._lost:
                lost, self._lost = self._lost, 0
                return Lost(lost)
            if self._findings:
                return self._findings.popleft()
            return self._outcomes.popleft() if self._outcomes else None

    def close(self) -> None:
        """Leave the feed and wake the caller of `get`. May be called more than once."""
        self._feed._leave(self)
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _offer(self, events: Sequence[FeedEntry], participants: _Participants) -> int:
        """Add those that the watcher asked for; returns how many older ones were lost for them."""
        wanted = [event for event in events if self._interest.covers(event, participants)]
        if not wanted:
            return 0
        with self._changed:
            self._findings.extend(event for event in wanted if isinstance(event, Finding))
            self._outcomes.extend(event for event in wanted if isinstance(event, Evaluation))
            lost = max(0, len(self._findings) + len(self._outcomes) - self._capacity)
            for _ in range(lost):
                (self._outcomes or self._findings).popleft()
            self._lost += lost
            self._changed.notify_all()
        return lost

    def _catch_up(self, missed: Sequence[FeedEntry], participants: _Participants) -> None:
        """Put those of `missed`, the newest first, that the watcher wants before what it was told meanwhile."""
        wanted = islice((event for event in missed if self._interest.covers(event, participants)), MAX_MISSED)
        with self._changed:
            room = self._capacity - len(self._findings) - len(self._outcomes)
            for event in islice(wanted, room):
                if isinstance(event, Finding):
                    self._findings.appendleft(event)
                else:
                    self._outcomes.appendleft(event)

    def __exit__(self, *_: object) -> None:
        self.close()


class Feed:
    """Gives every event, findings too, to all watchers; a slow watcher delays nobody.

    `participants` knows the processes that take part in a session. `capacity` bounds what waits for one watcher; how
    many watch, the service bounds (`api/service.py`).
    """

    def __init__(
        self,
        telemetry: Telemetry,
        participants: ProcessesIn,
        clock: Clock,
        *,
        capacity: int = 1024,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity {capacity} must be at least 1")
        self._telemetry = telemetry
        self._participants = participants
        self._clock = clock
        self._capacity = capacity
        # Each once, with the time of its telling (ns).
        self._alarms: LruMap[tuple[str | None, ...], tuple[int, FeedEntry]] = LruMap(MAX_ALARMS)
        self._subscriptions: set[Subscription] = set()
        self._closed = False
        # Guards the set and the alarms against watchers that come and go while evaluations are handed out.
        self._lock = Lock()

    def remember(self, findings: Sequence[Finding]) -> None:
        """Remember findings of an earlier process, the oldest first, as told when they were found."""
        with self._lock:
            for finding in findings:
                self._alarms.put(alarm_key(finding), (finding.found_at, finding))

    def forget(self, trace_ids: Collection[str]) -> None:
        """Forget the remembered alarms of these traces."""
        doomed = {*trace_ids}
        with self._lock:
            kept = [entry for entry in self._alarms.newest_first() if entry[1].trace_id not in doomed]
            self._alarms.clear()
            for told_at, event in reversed(kept):
                self._alarms.put(alarm_key(event), (told_at, event))

    def subscribe(
        self,
        session_id: str | None = None,
        names: Collection[str] = (),
        process_id: str | None = None,
        missed_seconds: float = 0.0,
    ) -> Subscription:
        """Watch the events that `Interest` describes, from now on. With `missed_seconds`, the remembered alarms of so
        much time past come first, the oldest of them first.

        Raises Unavailable once the feed is closed.
        """
        interest = Interest(session_id=session_id, names=frozenset(names), process_id=process_id)
        subscription = Subscription(self, interest, self._capacity)
        with self._lock:
            if self._closed:
                raise Unavailable("the collector is stopping; watch again when it is back")
            self._subscriptions.add(subscription)
            since = self._clock.now() - round(missed_seconds * 1e9)
            missed = [event for told_at, event in self._alarms.newest_first() if missed_seconds and told_at >= since]
        subscription._catch_up(missed, cache(self._participants.processes_in))
        return subscription

    def take_news(self, news: News) -> None:
        """Give new findings and evaluations to all who asked for them, findings first: a loop may still be stopped."""
        # A final score was handed out when it was found.
        evaluations = [committed.evaluation for committed in news.evaluations if not committed.final]
        events: list[FeedEntry] = [*news.told, *evaluations]
        if not events:
            return
        with self._lock:
            now = self._clock.now()
            for event in filter(is_alarm, events):
                self._alarms.put(alarm_key(event), (now, event))
            subscriptions = list(self._subscriptions)
        # Asked once for each session, and only where a watcher is interested.
        participants = cache(self._participants.processes_in)
        lost = sum(subscription._offer(events, participants) for subscription in subscriptions)
        if lost:
            self._telemetry.count(Counted.DROPPED, lost, _QUEUE)

    def close(self) -> None:
        """End every subscription; there will be no new ones."""
        with self._lock:
            self._closed = True
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            subscription.close()

    def _leave(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions.discard(subscription)
