"""Put spans together to traces, and decide when each is complete. It has no threads and does not wait: a clock is
given.

A trace is complete
- at once, when every process that told its span count has delivered that many spans. Our processor writes the count on
  the span that closes a trace;
- otherwise when its root and the parents of all its spans have come, and nothing more has for a short time. The
  collector learns from each sender's last traces which parents never come, and whose content comes in log records
  (`senders`). If it knows nothing of a sender, it waits for a long silence;
- as soon as its agent is known to have died, even if nothing of it has arrived;
- in any case at `max_age` after its first span, or earlier when memory is needed. It is scored as it stands then.

Spans that come later open the trace again, with all it had, and complete it as the next revision. Once the log has
forgotten a request of the scored revision, later spans are counted as late and passed over: a revision of fragments
must not replace a whole one.
"""

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.assembly.closed_traces import ClosedTraces
from agenteval_collector.assembly.completion import CompletionPolicy
from agenteval_collector.assembly.open_trace import MAX_BYTES, LogPosition, OpenTrace, SpanLogRecord
from agenteval_collector.assembly.ports import (
    ALONE,
    ArrivalTaker,
    KeptRequests,
    KnownTraces,
    ReportedSpans,
    ScoredRevision,
)
from agenteval_collector.assembly.restoring import assembled, items_of, refill
from agenteval_collector.assembly.schedule import Schedule
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.config.settings import AssemblyConfig
from agenteval_collector.model.assembled_trace import AssembledTrace, ClosedBy
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.logged_requests import (
    ARRIVAL_BYTES,
    DECODED,
    Arrival,
    LoggedRequest,
    LogLag,
    split_offset,
)
from agenteval_collector.runtime.clock import Clock

GOES_ON_AGAIN = 1.0
"""Seconds between two checks of whether an agent still works on a trace whose spans look complete."""

_EARLY = (ClosedBy.SILENCE, ClosedBy.MAX_AGE, ClosedBy.MEMORY)


class Assembler:
    """The open traces, and those that are being scored. Owned by one thread.

    `store` knows the traces that were scored before, and `log` has their requests. `loops` takes the new spans of
    traces that go on. `open_spans` knows the spans that have begun and not ended. By default there is none of these.
    No trace takes more than `max_trace_bytes`.
    """

    def __init__(
        self,
        clock: Clock,
        telemetry: Telemetry,
        senders: Senders,
        config: AssemblyConfig,
        *,
        store: KnownTraces = ALONE,
        log: KeptRequests = ALONE,
        loops: ArrivalTaker = ALONE,
        open_spans: ReportedSpans = ALONE,
        max_trace_bytes: int = MAX_BYTES,
    ) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._store = store
        self._log = log
        self._loops = loops
        self._open_spans = open_spans
        self.senders = senders
        self._config = config
        self._max_trace_bytes = max_trace_bytes
        self._completion = CompletionPolicy(self.senders, config)
        # In the order in which they were opened. A dict is slow at its front when many entries have left there.
        self._open: OrderedDict[bytes, OpenTrace] = OrderedDict()
        self._closed = ClosedTraces(config.max_recent_bytes)
        self._schedule = Schedule(config.settle)
        self._open_bytes = 0
        # By partition of the log: the offset behind the newest request.
        self._next: dict[int, int] = {}
        self._newest_received = 0
        # New spans that are still to be told: also those of an attempt that failed behind them.
        self._arrivals: list[Arrival] = []

    def take_requests(self, requests: Sequence[LoggedRequest]) -> list[AssembledTrace]:
        """Sort the spans and log records of requests into traces. Return the traces that are complete by that.

        Errors of the store and the log pass through. The same requests can be given again then.
        """
        parsed = [(request, items_of(request)) for request in requests]
        unseen = {trace_id for _, items in parsed for trace_id, _, _, _ in items if trace_id not in self._open}
        scored = self._look_up(unseen) if unseen else {}
        touched: dict[bytes, OpenTrace] = {}
        forgotten: set[bytes] = set()
        arrivals = self._arrivals
        size = 0
        for request, items in parsed:
            size += len(request.body)
            position = LogPosition(request.offset, request.received_at)
            for trace_id, item, raw, origin in items:
                trace = self._open.get(trace_id)
                if trace is None:
                    trace = self._find(trace_id, request.tenant, position, scored, forgotten)
                    if trace is None or not self._goes_on_with(trace, item, raw):
                        if trace_id in forgotten:
                            self._telemetry.count(Counted.LATE)
                        continue
                touched[trace_id] = trace
                before = trace.size
                if trace.add(item, raw, origin, position):
                    self._open_bytes += trace.size - before
                    if trace.revision > 1:
                        self._telemetry.count(Counted.LATE)
                    if isinstance(item, Span):
                        arrivals.append(Arrival(item, origin))
            partition, _ = split_offset(request.offset)
            # A request that is tried again is an old one.
            self._next[partition] = max(self._next.get(partition, 0), request.offset + 1)
            self._newest_received = max(self._newest_received, request.received_at)
        if scored:
            self._closed.trim()
        self._arrivals = []
        self._open_spans.take_ended(arrivals)
        complete = self._counted(touched.values())
        if running := self._going_on(touched, unseen, arrivals):
            self._loops.take_arrivals(running, DECODED * size + ARRIVAL_BYTES * len(running))
        return complete if self._open_bytes <= self._config.max_open_bytes else complete + self._within_memory()

    def due(self) -> list[AssembledTrace]:
        """Return the traces for which no more has to be waited."""
        now = self._clock.monotonic()
        complete: list[AssembledTrace] = []
        for trace_id in self._schedule.due(now):
            trace = self._open.get(trace_id)
            if trace is not None and (by := self._look(trace, now)) is not None:
                complete.append(self._complete(trace, by))
        while self._open:
            oldest = next(iter(self._open.values()))
            if oldest.opened_at + self._config.max_age > now:
                break
            complete.append(self._complete(oldest, ClosedBy.MAX_AGE))
        return complete

    def quiet(self) -> list[AssembledTrace]:
        """Return the traces that were complete by the times at which their requests were received.

        For a replay of the log: it reads in a moment what came over minutes, so that the clock says nothing about it.
        """
        complete: list[AssembledTrace] = []
        for trace in list(self._open.values()):
            quiet_for = (self._newest_received - trace.received_at) / 1e9
            if quiet_for >= self._config.settle:
                wait = self._completion.wait_for(trace)
                if quiet_for >= wait.seconds and not self._open_spans.goes_on(trace.trace_id.hex()):
                    complete.append(self._complete(trace, wait.by))
        return complete

    def complete_died(self, trace_ids: Sequence[str], tenant: str) -> list[AssembledTrace]:
        """Make a revision of each of these traces that says that its agent has died.

        Errors of the store and the log pass through. The same traces can be given again then.
        """
        keys = [bytes.fromhex(trace_id) for trace_id in trace_ids]
        scored = self._look_up({key for key in keys if key not in self._open})
        complete: list[AssembledTrace] = []
        position = LogPosition(self.last_offset + 1, self._clock.now())
        for key in keys:
            trace = self._open.get(key) or self._find(key, tenant, position, scored, set())
            if trace is not None:
                if key not in self._open:
                    self._reopen(trace)
                trace.note_death(position)
                complete.append(self._complete(trace, ClosedBy.DEATH))
        return complete

    def complete_again(self, trace_id: str, tenant: str) -> AssembledTrace | None:
        """Make a new revision of a trace from all that the log has of it. Return None if it has lost some of that.

        Errors of the store and the log pass through.
        """
        key = bytes.fromhex(trace_id)
        trace = self._open.get(key)
        position = LogPosition(self.last_offset + 1, self._clock.now())
        if trace is None:
            scored = self._look_up({key})
            if not scored and key not in self._closed:
                return None
            trace = self._find(key, tenant, position, scored, set())
            if trace is None:
                return None
            self._reopen(trace)
        trace.note_retry(position)
        return self._complete(trace, ClosedBy.RETRY)

    def offsets_of(self, trace_ids: Sequence[str]) -> set[int]:
        """Return the offsets of the requests that scored traces were made of. Errors of the store pass through."""
        known = self._store.known_traces(trace_ids) if trace_ids else {}
        return {offset for _, offsets in known.values() for offset in offsets}

    def next_due(self) -> float:
        """Return the time (monotonic) before which `due` returns nothing; infinite if nothing is open."""
        oldest = next(iter(self._open.values()), None)
        return math.inf if oldest is None else min(self._schedule.next(), oldest.opened_at + self._config.max_age)

    def complete_all(self) -> list[AssembledTrace]:
        """Close every open trace as it stands, because nothing more will come."""
        return [self._complete(trace, ClosedBy.END) for trace in list(self._open.values())]

    def scored(self, trace_id: str, revision: int) -> None:
        """Note that the revision is committed, so that no replay needs its requests."""
        key = bytes.fromhex(trace_id)
        trace = self._open.get(key) or self._closed.being_scored(key)
        if trace is None:
            return
        trace.committed(revision)
        if key not in self._open and trace.scored == trace.revision:
            self._closed.keep_scored(trace)
            self._closed.trim()

    def forget(self, trace_ids: Iterable[str]) -> None:
        """Forget everything that has come of these traces. Spans that come later begin them anew."""
        for key in map(bytes.fromhex, trace_ids):
            trace = self._open.pop(key, None)
            if trace is not None:
                self._open_bytes -= trace.size
                self._schedule.drop(key)
            self._closed.take(key)

    def begin_at(self, checkpoint: int) -> None:
        """Begin at offset `checkpoint`: an earlier process has scored everything below it."""
        self._next[split_offset(checkpoint)[0]] = checkpoint

    @property
    def last_offset(self) -> int:
        """The offset of the newest request that is assembled."""
        return max(self._next.values(), default=0) - 1

    def checkpoints(self) -> Mapping[int, int]:
        """Return the offset below which everything is scored, by partition of the log."""
        return self._scored_below(trace.unscored_from for trace in self._pending())

    def forget_partition(self, partition: int) -> None:
        """Forget all traces that came in a partition of the log: another process assembles them now."""
        self._next.pop(partition, None)
        of_partition = (trace for trace in self._pending() if split_offset(trace.unscored_from.offset)[0] == partition)
        self.forget([trace.trace_id.hex() for trace in of_partition])
        self._closed.trim(0)

    def lag(self) -> LogLag:
        """Return how far scoring is behind the log. Safe from any thread."""
        unscored = [trace.unscored_from for trace in self._pending()]
        if not unscored:
            return LogLag(requests=0, oldest_age=0.0)
        below = self._scored_below(unscored)
        requests = sum(offset - below[partition] for partition, offset in list(self._next.items()))
        age = max(0, self._clock.now() - min(trace.received_at for trace in unscored)) / 1e9
        return LogLag(requests=requests, oldest_age=age)

    def waiting_for_score(self) -> float:
        """Return the seconds for which the oldest complete trace has waited for its score. Safe from any thread."""
        now = self._clock.monotonic()
        return max((now - trace.touched_at for trace in self._closed.scoring()), default=0.0)

    def peek(self, trace_id: str) -> AssembledTrace | None:
        """Return a trace that is open or being scored, to be looked at only. Safe from any thread.

        The store may hold the same revision by now, and has the better answer then.
        """
        key = bytes.fromhex(trace_id)
        trace = self._open.get(key)
        if trace is not None:
            return replace(self._assembled(trace), waits_for=self._completion.waits_for(trace))
        trace = self._closed.being_scored(key)
        return self._assembled(trace) if trace else None

    def newest(self, count: int) -> list[AssembledTrace]:
        """Return the open traces that were opened last, at most `count`, to be looked at only. Safe from any thread."""
        return [self._assembled(trace) for trace in list(self._open.values())[-count:]]

    def release(self, size: int) -> list[AssembledTrace]:
        """Close the oldest traces as they stand, until at least `size` bytes are being scored, and are free after that.

        Scored traces that are kept in memory are forgotten at once.
        """
        self._closed.trim(0)
        released: list[AssembledTrace] = []
        while self._open and self._closed.scoring_bytes < size:
            released.append(self._complete(next(iter(self._open.values())), ClosedBy.MEMORY))
        return released

    @property
    def held(self) -> int:
        """Bytes of memory that open traces, and those that are being scored, take. Safe from any thread."""
        return self._open_bytes + self._closed.scoring_bytes

    @property
    def open_traces(self) -> int:
        return len(self._open)

    def _counted(self, touched: Iterable[OpenTrace]) -> list[AssembledTrace]:
        """Complete the traces that are whole by their senders' counts; look at the others later."""
        now = self._clock.monotonic()
        complete: list[AssembledTrace] = []
        for trace in touched:
            if self._completion.at_once(trace):
                complete.append(self._complete(trace, ClosedBy.COUNT))
            else:
                trace.touched_at = now
                self._schedule.touch(trace.trace_id, now)
        return complete

    def _going_on(
        self, touched: Mapping[bytes, OpenTrace], unseen: Set[bytes], arrivals: Iterable[Arrival]
    ) -> list[Arrival]:
        """Return the spans that live detection looks at now: those of traces that go on.

        The loops of a complete trace are found when it is read. A trace that came whole is complete in a moment, so
        that a look at its spans now would be for nothing. If it goes on after all, they are returned with its next
        spans.
        """
        running: list[Arrival] = []
        passed_over = touched.keys() - self._open.keys()
        for key in touched.keys() & self._open.keys():
            trace = touched[key]
            if key in unseen and self._settles(trace):
                trace.came_whole = True
            elif trace.came_whole:
                trace.came_whole = False
                running += [Arrival(Span.FromString(raw), origin) for raw, origin in trace.spans.values()]
            else:
                continue
            passed_over.add(key)
        return [*running, *(arrival for arrival in arrivals if arrival.span.trace_id not in passed_over)]

    def _settles(self, trace: OpenTrace) -> bool:
        """Return whether nothing of the trace is missing, and nobody is at work on it any more."""
        return self._completion.settles(trace) and not self._open_spans.goes_on(trace.trace_id.hex())

    def _look_up(self, trace_ids: set[bytes]) -> Mapping[str, ScoredRevision]:
        """Return those of the traces, which are not open, that were scored before and are not here."""
        unseen = [trace_id.hex() for trace_id in trace_ids if trace_id not in self._closed]
        return self._store.known_traces(unseen) if unseen else {}

    def _find(
        self,
        trace_id: bytes,
        tenant: str,
        position: LogPosition,
        known: Mapping[str, ScoredRevision],
        forgotten: set[bytes],
    ) -> OpenTrace | None:
        """Return a trace that is not open, with all it had. None if a scored revision has the request at `position`.

        Also None if the log does not hold that revision any more; then the trace is added to `forgotten`.
        """
        trace = self._closed.get(trace_id)
        if trace is not None or trace_id in forgotten:
            return trace
        trace = OpenTrace(
            trace_id,
            tenant,
            self.senders,
            now=self._clock.monotonic(),
            position=position,
            max_bytes=self._max_trace_bytes,
        )
        scored = known.get(trace_id.hex())
        if scored is None:
            self._open[trace_id] = trace
            self._open_bytes += trace.size
            return trace
        _, offsets = scored
        if position.offset in offsets:
            return None
        if not refill(trace, scored, self._log):
            forgotten.add(trace_id)
            return None
        self._closed.keep_scored(trace)
        return trace

    def _goes_on_with(self, trace: OpenTrace, item: Span | SpanLogRecord, raw: bytes) -> bool:
        """Return whether the trace is open. It is opened again for an item that it does not know."""
        if trace.trace_id not in self._open:
            if trace.knows(item, raw):
                return False
            self._reopen(trace)
        return True

    def _reopen(self, trace: OpenTrace) -> None:
        """Open a complete trace again."""
        self._closed.take(trace.trace_id)
        trace.reopen(self._clock.monotonic())
        self._open[trace.trace_id] = trace
        self._open_bytes += trace.size

    def _look(self, trace: OpenTrace, now: float) -> ClosedBy | None:
        """Return the reason to close the trace now; None if it is waited for, and will be looked at again."""
        wait = self._completion.wait_for(trace)
        over = trace.touched_at + wait.seconds
        if over <= now:
            if not self._open_spans.goes_on(trace.trace_id.hex()):
                return wait.by
            over = now + GOES_ON_AGAIN
        self._schedule.look_at(trace.trace_id, over)
        return None

    def _complete(self, trace: OpenTrace, by: ClosedBy) -> AssembledTrace:
        del self._open[trace.trace_id]
        self._open_bytes -= trace.size
        self._schedule.drop(trace.trace_id)
        trace.touched_at = self._clock.monotonic()
        self._closed.keep_until_scored(trace)
        if by in _EARLY:
            self._telemetry.count(Counted.RELEASED_EARLY)
        closing = self._completion.closing(trace, by)
        # These traces were not waited for, so that a missing parent says nothing about its sender.
        if by not in (ClosedBy.DEATH, ClosedBy.MEMORY, ClosedBy.RETRY):
            trace.learn()
        death = self._open_spans.death(trace.trace_id.hex())
        return assembled(trace, complete=True, death=death, closing=closing)

    def _assembled(self, trace: OpenTrace) -> AssembledTrace:
        return assembled(trace, complete=False, death=self._open_spans.death(trace.trace_id.hex()))

    def _scored_below(self, unscored: Iterable[LogPosition]) -> dict[int, int]:
        """Return the lowest of these offsets by partition; if there is none, the offset behind the newest
        request."""
        below = dict(self._next)
        for position in unscored:
            partition, _ = split_offset(position.offset)
            below[partition] = min(below.get(partition, position.offset), position.offset)
        return below

    def _pending(self) -> list[OpenTrace]:
        return [*list(self._open.values()), *self._closed.scoring()]

    def _within_memory(self) -> list[AssembledTrace]:
        """Close the oldest traces as they stand, until the rest fits into `max_open_bytes`."""
        released: list[AssembledTrace] = []
        while self._open_bytes > self._config.max_open_bytes:
            released.append(self._complete(next(iter(self._open.values())), ClosedBy.MEMORY))
        return released
