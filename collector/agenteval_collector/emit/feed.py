"""The feed: outcomes and live findings for all watchers, and recent verdicts for watchers that were away."""

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from threading import Condition, Lock
from typing import Final, NamedTuple, TypeAlias

from agenteval_collector.emit.ports import ProcessesIn
from agenteval_collector.model.callers import participant_of, process_of, sender_of
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.news import News
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import RetryableError, Unavailable
from otel_agenteval.detectors.rules import LOOP_EVALUATOR, LOOP_KINDS
from otel_agenteval.finding import Finding
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.outcome import Evaluation, Method, SubjectKind

MAX_VERDICTS: Final = 1024
"""The newest verdicts are remembered, up to this number, for watchers that were away."""
MAX_MISSED: Final = 256
"""A watcher that comes back gets the newest verdicts that it missed, up to this number."""
_QUEUE: Final = "watch"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lost:
    """The number of entries that were dropped at this point, because their reader was too slow."""

    count: int


FeedEntry: TypeAlias = Evaluation | Finding
FeedItem: TypeAlias = FeedEntry | Lost


class _LookUps(NamedTuple):
    """The processes of sessions and of traces. Each is looked up once, as a commit has many entries of one session, and
    the store is asked."""

    processes_in: Callable[[str], Collection[str]]
    processes_of: Callable[[str], Collection[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """The entries that a watcher wants: those of `session_id` alone, and of the evaluators in `names`, if given.

    Loops have the name of their evaluator, other findings that of their kind. With `process_id`, the watcher gets only
    verdicts of sessions that this process takes part in: findings, and judged scores of traces below their threshold.
    With `sender`, the process must be of this key, and the verdict about a trace with spans of this key: anybody can
    name a session or a process that is not his own.
    """

    session_id: str | None = None
    names: frozenset[str] = frozenset()
    process_id: str | None = None
    sender: str | None = None

    def covers(self, entry: FeedEntry, participants: "_LookUps") -> bool:
        """Return whether the watcher wants this entry."""
        session_id, name = entry.session_id, _name(entry)
        if self.session_id not in (None, session_id) or (self.names and name not in self.names):
            return False
        if self.process_id is None:
            return True
        if not is_verdict(entry):
            return False
        in_session = participants.processes_in(session_id)
        if self.sender is None:
            return self.process_id in map(process_of, in_session)
        return participant_of(self.sender, self.process_id) in in_session and (
            self.sender in map(sender_of, participants.processes_of(entry.trace_id or ""))
        )


def _name(entry: FeedEntry) -> str:
    if isinstance(entry, Evaluation):
        return entry.name
    return LOOP_EVALUATOR if entry.kind in LOOP_KINDS else entry.kind


def is_verdict(entry: FeedEntry) -> bool:
    """Return whether the entry is told to the agent's process: a finding that is told live, or a judged score of a
    trace below its threshold."""
    if isinstance(entry, Finding):
        return True
    return entry.method is Method.LLM and entry.subject is SubjectKind.TRACE and entry.success is False


def verdict_key(entry: FeedEntry) -> tuple[str | None, ...]:
    """Return a key that is equal for the same verdict, however often it is told."""
    if isinstance(entry, Finding):
        return entry.trace_id, entry.kind, entry.span_id
    return entry.subject_id, entry.name


class Participants:
    """Finds the processes that take part in a session: of its newest complete traces (`stored`), and of its `running`
    ones."""

    def __init__(self, stored: ProcessesIn, *running: ProcessesIn) -> None:
        self._stored = stored
        self._running = running

    def processes_in(self, session_id: str) -> frozenset[str]:
        """Return the processes in the session. If the store cannot be asked, only those of running traces.
        Thread-safe."""
        running = frozenset[str]().union(*(running.processes_in(session_id) for running in self._running))
        return running | self._in_store(self._stored.processes_in, session_id)

    def processes_of(self, trace_id: str) -> frozenset[str]:
        """Return the processes with spans in the trace, like `processes_in`."""
        running = frozenset[str]().union(*(running.processes_of(trace_id) for running in self._running))
        return running | self._in_store(self._stored.processes_of, trace_id)

    def _in_store(self, look_up: Callable[[str], frozenset[str]], name: str) -> frozenset[str]:
        try:
            return look_up(name)
        except RetryableError as error:
            # Processes that are known without the store still get the verdict.
            _logger.warning("not all processes of %.200r are known now: %s", name, error)
            return frozenset()


class Subscription(AbstractContextManager["Subscription"]):
    """The entries that one watcher has not read yet. Above `capacity`, the oldest are dropped.

    Findings are read first and dropped last, because hundreds of outcomes may wait. Thread-safe. Close it when the
    watcher leaves; it is a context manager.
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
        """True once nothing more is added. What was added before can still be read."""
        return self._closed

    def get(self, timeout: float) -> FeedItem | None:
        """Return the next entry, or how many were dropped before it.

        Returns None if nothing came within `timeout` seconds, or if the subscription is closed and read to its
        end.
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
        """Leave the feed and wake the caller of `get`. May be called again."""
        self._feed._leave(self)
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _offer(self, entries: Sequence[FeedEntry], participants: _LookUps) -> int:
        """Add the entries that the watcher wants. Return how many older entries were dropped to make room."""
        wanted = [entry for entry in entries if self._interest.covers(entry, participants)]
        if not wanted:
            return 0
        with self._changed:
            self._findings.extend(entry for entry in wanted if isinstance(entry, Finding))
            self._outcomes.extend(entry for entry in wanted if isinstance(entry, Evaluation))
            lost = max(0, len(self._findings) + len(self._outcomes) - self._capacity)
            for _ in range(lost):
                (self._outcomes or self._findings).popleft()
            self._lost += lost
            self._changed.notify_all()
        return lost

    def _catch_up(self, missed: Sequence[FeedEntry], participants: _LookUps) -> None:
        """Put verdicts from `missed` (newest first) that the watcher wants before the entries that it got meanwhile."""
        wanted = islice((entry for entry in missed if self._interest.covers(entry, participants)), MAX_MISSED)
        with self._changed:
            room = self._capacity - len(self._findings) - len(self._outcomes)
            for entry in islice(wanted, room):
                if isinstance(entry, Finding):
                    self._findings.appendleft(entry)
                else:
                    self._outcomes.appendleft(entry)

    def __exit__(self, *_: object) -> None:
        self.close()


class Feed:
    """Gives each entry to all watchers that want it. A slow watcher delays nobody.

    `participants` finds the processes of a session. At most `capacity` entries wait for one watcher. The number of
    watchers is bounded by the service (`serve/api/service.py`).
    """

    def __init__(
        self,
        telemetry: Telemetry,
        participants: ProcessesIn,
        clock: Clock,
        *,
        capacity: int = 1024,
    ) -> None:
        self._telemetry = telemetry
        self._participants = participants
        self._clock = clock
        self._capacity = capacity
        # Each verdict once, with the time (ns) at which it was told.
        self._verdicts: LruMap[tuple[str | None, ...], tuple[int, FeedEntry]] = LruMap(MAX_VERDICTS)
        self._subscriptions: set[Subscription] = set()
        self._closed = False
        # Guards the set and the verdicts against watchers that come and go while evaluations are handed out.
        self._lock = Lock()

    def remember(self, findings: Sequence[Finding]) -> None:
        """Remember verdicts of an earlier process. `findings` come oldest first, and count as told at the time when
        they were found."""
        with self._lock:
            for finding in findings:
                self._verdicts.put(verdict_key(finding), (finding.found_at, finding))

    def forget(self, trace_ids: Collection[str]) -> None:
        """Forget the verdicts of these traces."""
        doomed = {*trace_ids}
        with self._lock:
            verdicts = [verdict for verdict in self._verdicts.newest_first() if verdict[1].trace_id not in doomed]
            self._verdicts.clear()
            for told_at, entry in reversed(verdicts):
                self._verdicts.put(verdict_key(entry), (told_at, entry))

    def subscribe(
        self,
        session_id: str | None = None,
        names: Collection[str] = (),
        process_id: str | None = None,
        missed_seconds: float = 0.0,
        sender: str | None = None,
    ) -> Subscription:
        """Watch the entries that `Interest` describes, from now on. The verdicts of the last `missed_seconds` come
        first, oldest first.

        Raises Unavailable once the feed is closed.
        """
        interest = Interest(session_id=session_id, names=frozenset(names), process_id=process_id, sender=sender)
        subscription = Subscription(self, interest, self._capacity)
        with self._lock:
            if self._closed:
                raise Unavailable("the collector is stopping; watch again when it is back")
            self._subscriptions.add(subscription)
            since = self._clock.now() - round(missed_seconds * 1e9)
            missed = [entry for told_at, entry in self._verdicts.newest_first() if missed_seconds and told_at >= since]
        subscription._catch_up(missed, self._known_once())
        return subscription

    def take_news(self, news: News) -> None:
        """Give new findings and outcomes to the watchers that want them. Findings come first: a loop may still be
        stopped."""
        # A final session score was handed out when it was computed.
        evaluations = [committed.evaluation for committed in news.evaluations if not committed.final]
        entries: list[FeedEntry] = [*news.to_tell, *evaluations]
        if not entries:
            return
        with self._lock:
            now = self._clock.now()
            for entry in filter(is_verdict, entries):
                self._verdicts.put(verdict_key(entry), (now, entry))
            subscriptions = list(self._subscriptions)
        participants = self._known_once()
        lost = sum(subscription._offer(entries, participants) for subscription in subscriptions)
        if lost:
            self._telemetry.count(Counted.DROPPED, lost, _QUEUE)

    def close(self) -> None:
        """End every subscription, and refuse new ones."""
        with self._lock:
            self._closed = True
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            subscription.close()

    def _known_once(self) -> _LookUps:
        return _LookUps(cache(self._participants.processes_in), cache(self._participants.processes_of))

    def _leave(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions.discard(subscription)
