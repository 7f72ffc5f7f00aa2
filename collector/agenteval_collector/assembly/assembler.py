"""Which spans make a trace, and when it is complete. Pure: no threads, no waiting, time comes from the clock.

A trace is complete
- when every process that reported its span count has delivered that many (our processor marks the span that closes
  a trace), at once; otherwise
- after a quiet period without anything new, once no span is known to be open;
- as soon as its agent is known to have died, even where nothing of it has arrived; in any case
- at `max_age` after its first span, or earlier when memory is needed: it is scored as it stands.

What comes later opens the trace again, with all it had, and completes as the next revision. Once the log has
forgotten a request of the scored revision, later spans are counted as late and passed over: a revision of
fragments must not replace a whole one.
"""

import heapq
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.assembly.open_trace import OpenTrace, Receipt
from agenteval_collector.assembly.restoring import KnownTrace, assembled, items_of, refill
from agenteval_collector.clock import Clock
from agenteval_collector.pipeline import Arrival, AssembledTrace, Death, LoggedRequest, Origin, Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLag:
    """Requests from the oldest one that is not fully scored to the newest one, and the seconds since that one was
    received, by whichever run of the collector."""

    requests: int
    oldest_age: float


class Assembler:
    """The open traces, and those that are being scored; owned by one thread.

    `known` looks up traces that were scored before, `reload` reads requests from the log again. `arrived` is given the
    spans that were not known before, and the size of the requests they came in. `goes_on` knows whether a span of a
    trace is open whose start alone was reported, `death` whether its agent died meanwhile. None must block or raise.
    """

    def __init__(
        self,
        clock: Clock,
        telemetry: Telemetry,
        known: Callable[[Sequence[str]], Mapping[str, KnownTrace]],
        reload: Callable[[Sequence[int]], Iterable[LoggedRequest]],
        arrived: Callable[[Sequence[Arrival], int], None] = lambda _arrivals, _size: None,
        goes_on: Callable[[str], bool] = lambda _trace_id: False,
        death: Callable[[str], Death | None] = lambda _trace_id: None,
        *,
        quiet_period: float,
        max_age: float,
        max_open_bytes: int,
    ) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._known = known
        self._reload = reload
        self._arrived = arrived
        self._goes_on = goes_on
        self._death = death
        self._quiet_period = quiet_period
        self._max_age = max_age
        self._max_open_bytes = max_open_bytes
        # In the order they were opened; unlike a dict as fast at its front when many have left from there.
        self._open: OrderedDict[bytes, OpenTrace] = OrderedDict()
        self._scoring: dict[bytes, OpenTrace] = {}
        self._deadlines: list[tuple[float, bytes]] = []
        self._open_bytes = 0
        self._next_offset = 0
        self._newest_received = 0

    def take(self, requests: Sequence[LoggedRequest]) -> list[AssembledTrace]:
        """Sort the requests' spans and log records into traces; the traces that are complete by that.

        What `known` and `reload` raise passes through; the same requests can be given again then.
        """
        parsed = [(request, list(items_of(request))) for request in requests]
        unseen = {
            trace_id
            for _, items in parsed
            for trace_id, _, _ in items
            if trace_id not in self._open and trace_id not in self._scoring
        }
        known = self._known([trace_id.hex() for trace_id in unseen]) if unseen else {}
        touched: dict[bytes, OpenTrace] = {}
        forgotten: set[bytes] = set()
        arrivals: list[Arrival] = []
        for request, items in parsed:
            receipt = Receipt(request.offset, request.received_at)
            for trace_id, item, origin in items:
                if trace_id in forgotten:
                    trace = None
                else:
                    trace = self._find(trace_id, request.tenant, receipt, known, forgotten)
                if trace is not None:
                    if self._add(trace, item, origin, receipt) and isinstance(item, Span):
                        arrivals.append(Arrival(item, origin))
                    touched[trace_id] = trace
                elif trace_id in forgotten:
                    self._telemetry.late(1)
            self._next_offset = request.offset + 1
            self._newest_received = max(self._newest_received, request.received_at)
        if arrivals:
            self._arrived(arrivals, sum(len(request.body) for request in requests))
        for trace in touched.values():
            self._schedule(trace)
        complete = [self._complete(trace) for trace in touched.values() if trace.changed and trace.delivered]
        return complete + self._within_memory()

    def due(self) -> list[AssembledTrace]:
        """The traces whose time has come."""
        now = self._clock.monotonic()
        complete: list[AssembledTrace] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, trace_id = heapq.heappop(self._deadlines)
            trace = self._open.get(trace_id)
            if trace is None or trace.deadline != deadline:
                continue  # Completed meanwhile, or due earlier by now; this deadline was left behind.
            trace.deadline = math.inf
            if self._due_at(trace) > now:
                self._schedule(trace)
            elif trace.changed:
                going_on = self._going_on(trace, now)
                if going_on and now < trace.opened_at + self._max_age:
                    self._look_again(trace, now)
                    continue
                if going_on:
                    self._telemetry.released_early(1)
                complete.append(self._complete(trace))
            else:
                self._settle(trace)
        return complete

    def quiet(self) -> list[AssembledTrace]:
        """While the log is read again: the traces of which nothing came for a quiet period, by the times of receipt.

        What was received over minutes is read in a moment, so that our own time says nothing of it.
        """
        before = self._newest_received - round(self._quiet_period * 1e9)
        quiet = [
            trace
            for trace in self._open.values()
            if trace.received_at <= before and trace.changed and trace.spans and not trace.running
        ]
        return [self._complete(trace) for trace in quiet if not self._goes_on(trace.trace_id.hex())]

    def died(self, trace_ids: Sequence[str], tenant: str) -> list[AssembledTrace]:
        """The agents of these traces died: a revision of each that says so.

        What `known` and `reload` raise passes through; the same traces can be given again then.
        """
        keys = [bytes.fromhex(trace_id) for trace_id in trace_ids]
        unseen = [key.hex() for key in keys if key not in self._open and key not in self._scoring]
        known = self._known(unseen) if unseen else {}
        complete: list[AssembledTrace] = []
        receipt = Receipt(self._next_offset, self._clock.now())
        for key in keys:
            trace = self._find(key, tenant, receipt, known, set())
            if trace is not None:
                trace.died(receipt)
                complete.append(self._complete(trace))
        return complete

    def next_due(self) -> float | None:
        """When `due` may next return something, on the monotonic clock; it may also be early."""
        return self._deadlines[0][0] if self._deadlines else None

    def complete_all(self) -> list[AssembledTrace]:
        """Every open trace as it stands: nothing more will come."""
        return [self._complete(trace) for trace in list(self._open.values()) if trace.changed]

    def scored(self, trace_id: str, revision: int) -> None:
        """The revision is committed: nothing of it has to be replayed any more."""
        key = bytes.fromhex(trace_id)
        trace = self._open.get(key) or self._scoring.get(key)
        if trace is None:
            return
        trace.committed(revision)
        if key in self._scoring and trace.scored == trace.revision:
            del self._scoring[key]

    def checkpoint(self) -> int:
        """The offset below which everything is scored."""
        pending = [*self._open.values(), *self._scoring.values()]
        return min((trace.unscored_from.offset for trace in pending), default=self._next_offset)

    def lag(self) -> LogLag:
        """How far scoring is behind the log; safe from any thread."""
        pending = [*self._open.values(), *self._scoring.values()]
        oldest = min((trace.unscored_from for trace in pending), default=None)
        if oldest is None:
            return LogLag(requests=0, oldest_age=0.0)
        age = max(0, self._clock.now() - oldest.received_at) / 1e9
        return LogLag(requests=self._next_offset - oldest.offset, oldest_age=age)

    def peek(self, trace_id: str) -> AssembledTrace | None:
        """A look at a trace that is open or being scored; safe from any thread.

        The store may hold the same revision by now, and has the better answer then.
        """
        key = bytes.fromhex(trace_id)
        trace = self._open.get(key) or self._scoring.get(key)
        return self._assembled(trace, complete=False) if trace else None

    def newest(self, count: int) -> list[AssembledTrace]:
        """A look at the open traces that were opened last, at most `count`; safe from any thread."""
        return [self._assembled(trace, complete=False) for trace in list(self._open.values())[-count:]]

    @property
    def open_traces(self) -> int:
        return len(self._open)

    @property
    def open_bytes(self) -> int:
        """Serialized bytes of the spans and log records of open traces."""
        return self._open_bytes

    def _find(
        self, trace_id: bytes, tenant: str, receipt: Receipt, known: Mapping[str, KnownTrace], forgotten: set[bytes]
    ) -> OpenTrace | None:
        """The open trace that items of the request at `receipt` belong to; None where a scored revision has them.

        Also None, and the trace is added to `forgotten`, where the log does not hold that revision any more.
        """
        trace = self._open.get(trace_id)
        if trace is not None:
            return trace
        now = self._clock.monotonic()
        trace = self._scoring.pop(trace_id, None)
        if trace is not None:
            trace.reopen(now)
        else:
            trace = OpenTrace(trace_id, tenant, now=now, receipt=receipt)
            scored = known.get(trace_id.hex())
            if scored is not None:
                if receipt.offset in scored.offsets:
                    return None
                if not self._restore(trace, scored):
                    forgotten.add(trace_id)
                    return None
                trace.unscored_from = receipt
        self._open[trace_id] = trace
        self._open_bytes += trace.size
        self._schedule(trace)
        return trace

    def _restore(self, trace: OpenTrace, scored: KnownTrace) -> bool:
        """Bring back from the log what the scored revision was made of; False where some of it is gone."""
        whole = refill(trace, scored, self._reload)
        trace.restored(scored.revision, self._clock.monotonic())
        return whole

    def _add(self, trace: OpenTrace, item: Span | bytes, origin: Origin, receipt: Receipt) -> bool:
        before = trace.size
        added = trace.add(item, origin, receipt)
        if added:
            self._open_bytes += trace.size - before
            trace.touched_at = self._clock.monotonic()
            if trace.revision > 1:
                self._telemetry.late(1)
        return added

    def _schedule(self, trace: OpenTrace) -> None:
        """Look at the trace when it is due, or earlier: a look finds out about what came since and looks again."""
        self._look_at(trace, self._due_at(trace))

    def _look_again(self, trace: OpenTrace, now: float) -> None:
        self._look_at(trace, min(now + self._quiet_period, trace.opened_at + self._max_age))

    def _look_at(self, trace: OpenTrace, due: float) -> None:
        if due < trace.deadline:
            trace.deadline = due
            heapq.heappush(self._deadlines, (due, trace.trace_id))

    def _due_at(self, trace: OpenTrace) -> float:
        at_latest = trace.opened_at + self._max_age
        # Log records alone wait for their spans.
        if trace.running or not trace.spans:
            return at_latest
        return min(trace.touched_at + self._quiet_period, at_latest)

    def _going_on(self, trace: OpenTrace, now: float) -> bool:
        """Whether there is a reason to wait, however old the trace is: an assembly that was held up finds many old ones
        that were complete long ago."""
        quiet = bool(trace.spans) and not trace.running and now >= trace.touched_at + self._quiet_period
        return not quiet or self._goes_on(trace.trace_id.hex())

    def _complete(self, trace: OpenTrace) -> AssembledTrace:
        self._close(trace)
        self._scoring[trace.trace_id] = trace
        return self._assembled(trace, complete=True)

    def _assembled(self, trace: OpenTrace, *, complete: bool) -> AssembledTrace:
        return assembled(trace, complete=complete, death=self._death(trace.trace_id.hex()))

    def _settle(self, trace: OpenTrace) -> None:
        """Nothing but repetitions came since the trace was opened again."""
        self._close(trace)
        trace.unchanged()
        if trace.scored < trace.revision:
            self._scoring[trace.trace_id] = trace

    def _close(self, trace: OpenTrace) -> None:
        del self._open[trace.trace_id]
        self._open_bytes -= trace.size

    def _within_memory(self) -> list[AssembledTrace]:
        """The oldest traces, as they stand, until the rest fits."""
        released: list[AssembledTrace] = []
        while self._open_bytes > self._max_open_bytes:
            oldest = next(iter(self._open.values()))
            if oldest.changed:
                released.append(self._complete(oldest))
                self._telemetry.released_early(1)
            else:
                self._settle(oldest)
        return released
