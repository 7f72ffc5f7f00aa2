"""The export thread: gathers spans into requests, keeps one in flight, and retries until the collector has them."""

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from otel_agenteval.sending.announcements import Announcements
from otel_agenteval.sending.background import (
    FIRST_BACKOFF,
    MAX_BACKOFF,
    OwnThread,
    backoff,
    suppressing_instrumentation,
)
from otel_agenteval.sending.buffer import EndedSpan, SpanBuffer
from otel_agenteval.sending.encoding import EncodedSpan, Encoder
from otel_agenteval.sending.intake import SpanIntake
from otel_agenteval.sending.throttle import ThrottledLog
from otel_agenteval.sending.transport import (
    EXPORT_METHOD,
    STARTS_METHOD,
    Answer,
    Delivered,
    Refused,
    Retry,
    Transport,
)

LINGER: Final = 0.05
"""Seconds for which spans that are not urgent wait for more."""
MIN_INTERVAL: Final = 0.005
"""Seconds from one request to the next, unless it is full: a request costs as much as ten spans."""

MAX_REQUEST_SPANS: Final = 512
MAX_REQUEST_BYTES: Final = 4 * 1024 * 1024
MAX_SPAN_BYTES: Final = 16 * 1024 * 1024
"""Bytes of an encoded span. A larger one is dropped."""
MAX_REPORTS: Final = 1024
"""Reports that may wait. New ones are dropped then."""
REQUEST_TIMEOUT: Final = 10.0
ANNOUNCE_TIMEOUT: Final = 1.0

_IDLE: Final = 30.0
_MAX_ORDERED_DELAY: Final = 300.0
"""The most seconds for which we wait when a collector asks us to. A longer wait may be a mistake, and would cost
spans."""
_UNREACHABLE_GRACE: Final = 0.5
"""Seconds for which a stop tries a collector that was never reached. It may be starting beside the agent."""

_logger = logging.getLogger("otel_agenteval")


@dataclass(eq=False)
class ExportThread:
    """Takes spans in, sends them, and sends reports and announcements beside them. Owns the thread and the connection.

    The agent's threads call `wake` (of `OwnThread`) after the end of a span that may close its trace, and after any end
    while this thread `sleeps`. `before_encoding` completes spans that are about to be encoded. Of all methods, the
    agent's threads run `add_report`, `flush` and `stop` only.
    """

    intake: SpanIntake
    buffer: SpanBuffer
    transport: Transport
    encoder: Encoder
    monotonic: Callable[[], float]
    announcements: Announcements
    before_encoding: Callable[[Sequence[EndedSpan]], None]

    def __post_init__(self) -> None:
        self._log = ThrottledLog(_logger, self.monotonic)
        self._thread = OwnThread("agenteval-sender", self._run)
        self.start, self.wake = self._thread.start, self._thread.wake
        # Only wakes waiters: `flush`, and the pauses between attempts. State has one writer each, and needs no lock.
        self._progress = threading.Condition()
        self._flushes = 0
        self._deadline: float | None = None
        self._grace_ends = 0.0
        self._done = threading.Event()
        self._reports: deque[tuple[str, bytes]] = deque()
        self._report_due = 0.0
        self._next_request = 0.0
        self._seen = 0
        self.sleeps = False
        """True while the thread does not look by itself whether a span has ended."""
        self._noted: Counter[str] = Counter()
        self._report_attempts = 0
        self._announce_attempts = 0
        self.reports_accepted = 0
        self.reports_settled = 0
        self.reports_delivered = 0
        self.faults = 0
        self.exported = 0
        self.rejected = 0
        self.dropped: Counter[str] = Counter()
        """Spans that were given up here, by reason."""
        self.reports_dropped: Counter[str] = Counter()
        """Reports that were given up here, by reason."""

    def add_report(self, method: str, request: bytes) -> bool:
        """Queue an encoded report for a method of the collector. False when the queue is full."""
        if len(self._reports) >= MAX_REPORTS:
            return False
        self._reports.append((method, request))
        self.reports_accepted += 1
        self.wake()
        return True

    def flush(self, timeout: float) -> bool:
        """Wait until the collector has answered for everything handed over before. False after `timeout` seconds.

        A pause between two attempts ends early, unless the collector asked for it.
        """
        spans, reports = self.buffer.accepted, self.reports_accepted
        with self._progress:
            self._flushes += 1
            self._progress.notify_all()
        self.wake()
        with self._progress:
            return self._progress.wait_for(
                lambda: self.buffer.settled >= spans and self.reports_settled >= reports, timeout
            )

    def stop(self, timeout: float) -> None:
        """Deliver as much as possible within `timeout` seconds, drop the rest, and end the thread."""
        with self._progress:
            if self._deadline is None:
                now = self.monotonic()
                self._grace_ends = now + min(timeout, _UNREACHABLE_GRACE)
                self._deadline = now + timeout
            self._progress.notify_all()
        if not self._thread.started:
            # Nothing was handed over, or only at interpreter exit, when no thread can be started any more. Then this
            # thread sends what there is.
            self._run()
            return
        self.wake()
        if not self._done.wait(timeout):
            # A request in flight may outlive the deadline. Closing the connection ends it.
            self.transport.close()
            self._done.wait(1.0)

    def _run(self) -> None:
        try:
            with suppressing_instrumentation():
                while not self._finished():
                    self._await_batch()
                    self._guarded(self._send_batch)
                    self._guarded(self._send_report)
                    self._guarded(self._send_announcement)
                    self._log_losses()
                self._drop_rest()
                self._note_refusals()
                self._log.log_rest()
        finally:
            self.transport.close()
            self._done.set()

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step of the loop. A bug of ours costs what the step was to send, never the thread."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the agent must outlive our bugs; it is logged, lost spans are counted
            self.faults += 1
            self._log.warning("fault", "agenteval failed while sending", exc_info=error)

    def _finished(self) -> bool:
        if self._deadline is None:
            return False
        nothing_left = not self.buffer.waiting and not self._reports
        return nothing_left or self.monotonic() >= self._deadline

    def _is_full(self) -> bool:
        buffer = self.buffer
        return buffer.waiting >= MAX_REQUEST_SPANS or buffer.waiting_bytes >= MAX_REQUEST_BYTES

    def _await_batch(self) -> None:
        """Wait until something is to be sent: spans that are urgent, fill a request or have waited for `LINGER`, a
        report or an announcement that is due; or until the thread is to stop."""
        linger_until: float | None = None
        while self._deadline is None:
            self.intake.take_in()
            if self._is_full():
                return
            now = self.monotonic()
            timeout = min(_IDLE, self.announcements.seconds_left())
            if self._reports:
                timeout = min(timeout, self._report_due - now)
            if self.buffer.is_urgent:
                timeout = min(timeout, self._next_request - now)
            elif self.buffer.waiting:
                linger_until = linger_until or now + LINGER
                timeout = min(timeout, linger_until - now)
            elif self._seen != self.buffer.accepted:
                # More spans may end soon. Looking again saves their threads from waking this one.
                self._seen = self.buffer.accepted
                timeout = min(timeout, LINGER)
            if timeout <= 0:
                return
            self._log_losses()
            self._sleep(timeout)

    def _sleep(self, timeout: float) -> None:
        """Wait for a wake, at most `timeout` seconds."""
        # Set before the look at the intake: a span that ends before it is seen here, one that ends later wakes us.
        self.sleeps = timeout > LINGER
        if not (self.sleeps and len(self.intake)):
            self._thread.wait(timeout)
        self.sleeps = False

    def _send_batch(self) -> None:
        batch = self.buffer.take(MAX_REQUEST_SPANS, MAX_REQUEST_BYTES)
        if not batch:
            return
        self._next_request = self.monotonic() + MIN_INTERVAL
        spans, accounted = len(batch), self._accounted()
        try:
            self.before_encoding(batch)
            if batch_part := list(self._encoded(batch)):
                self._deliver(batch_part)
        finally:
            if lost := spans - (self._accounted() - accounted):
                self._drop("internal_error", lost, "a fault of ours, logged beside this")
            self.buffer.settle()
            self._notify()

    def _accounted(self) -> int:
        return self.exported + self.rejected + self.dropped.total()

    def _encoded(self, batch: list[EndedSpan]) -> Iterator[EncodedSpan]:
        """Encode the spans of a batch, and empty it: an encoded span need not stay in memory until the collector
        answers."""
        batch.reverse()
        while batch:
            ended = batch.pop()
            try:
                encoded = self.encoder.span(ended)
            except Exception as error:  # noqa: BLE001 - the SDK checks no types; the span is counted, the error logged
                self._drop("not_encodable", 1, f"span {ended.span.name!r}: {error!r}")
                continue
            if len(encoded) > MAX_SPAN_BYTES:
                size = f"{len(encoded)} bytes, the limit is {MAX_SPAN_BYTES}"
                self._drop("too_large", 1, f"span {ended.span.name!r} has {size}")
                continue
            yield ended.span.resource, ended.span.instrumentation_scope, encoded

    def _deliver(self, batch_part: list[EncodedSpan]) -> None:
        """Send until the collector has answered for every span of `batch_part`, or the time for a stop is over."""
        request = self.encoder.request(batch_part)
        attempt = 0
        while True:
            timeout = self._time_left(REQUEST_TIMEOUT)
            answer: Answer = Retry("stopped") if timeout <= 0 else self.transport.send(EXPORT_METHOD, request, timeout)
            match answer:
                case Delivered(rejected, message):
                    self._delivered(len(batch_part), rejected, message)
                    return
                case Refused(_, too_large=True) if len(batch_part) > 1:
                    half = len(batch_part) // 2
                    self._deliver(batch_part[:half])
                    self._deliver(batch_part[half:])
                    return
                case Refused(problem):
                    self._drop("refused", len(batch_part), problem)
                    return
                case Retry():
                    if not self._pause(attempt, answer):
                        self._drop("shutdown", len(batch_part), answer.problem)
                        return
            attempt += 1

    def _delivered(self, spans: int, rejected: int, message: str) -> None:
        rejected = min(rejected, spans)
        self.exported += spans - rejected
        self.rejected += rejected
        if rejected:
            self._lose("the collector rejected %d spans", rejected, message or "it does not say why")
        elif message:
            self._log.warning("warned", "the collector took the spans and says: %s", message)

    def _send_report(self) -> None:
        """Try once to send the oldest report. Spans never wait for a report that the collector does not take now."""
        if not self._reports or (self.monotonic() < self._report_due and self._deadline is None):
            return
        answer: Answer = Refused("a fault of ours")
        try:
            answer = self.transport.send(*self._reports[0], self._time_left(REQUEST_TIMEOUT))
        finally:
            if isinstance(answer, Retry):
                self._put_off_reports(answer)
            else:
                self._reports.popleft()
                self._report_attempts = 0
                if isinstance(answer, Delivered):
                    self.reports_delivered += 1
                else:
                    self._drop_reports("refused", 1, answer.problem)
                self.reports_settled += 1
                self._notify()

    def _send_announcement(self) -> None:
        """Try once to send the announcement that is due. Nothing waits for it."""
        delivered = not len(self.intake) and self.buffer.settled >= self.buffer.accepted
        if (request := self.announcements.take(delivered=delivered)) is None:
            return
        answer = self.transport.send(
            STARTS_METHOD, self.encoder.announcement(request), self._time_left(ANNOUNCE_TIMEOUT)
        )
        match answer:
            case Delivered():
                self.announcements.taken(request)
                self._announce_attempts = 0
            case Refused():
                self.announcements.give_up(request)
            case Retry():
                self.announcements.put_off(request, backoff(self._announce_attempts))
                self._announce_attempts += 1

    def _put_off_reports(self, answer: Retry) -> None:
        self._log.warning("unreachable", "%d reports wait: %s", len(self._reports), answer.problem)
        if self._deadline is not None:
            self._rest_while_stopping(answer)
        self._report_due = self.monotonic() + _delay(self._report_attempts, answer.after)
        self._report_attempts += 1

    def _pause(self, attempt: int, answer: Retry) -> bool:
        """Wait before the next attempt. False if the time for a stop is over."""
        after = answer.after
        waiting = self.buffer.accepted - self.buffer.settled
        self._log.warning("unreachable", "%d spans wait for the collector: %s", waiting, answer.problem)
        flushes = self._flushes
        until = self.monotonic() + _delay(attempt, after)

        def cut_short() -> bool:
            return self._deadline is not None or (not after and self._flushes != flushes)

        while not cut_short() and (remaining := until - self.monotonic()) > 0:
            self._log_losses()
            # A collector that takes no spans now must still hear that the process lives.
            self._guarded(self._send_announcement)
            with self._progress:
                self._progress.wait_for(cut_short, min(remaining, MAX_BACKOFF))
        if self._deadline is not None:
            self._rest_while_stopping(answer)
            return self.monotonic() < self._deadline
        return True

    def _rest_while_stopping(self, answer: Retry) -> None:
        """Wait briefly before the next attempt during a stop. A collector that was never reached gets less time."""
        if answer.never_reached:
            self._deadline = self._grace_ends
        with self._progress:
            self._progress.wait(self._time_left(FIRST_BACKOFF))

    def _note_refusals(self) -> None:
        """Note what the buffer refused, to be logged here: the agent's threads never log."""
        buffer = self.buffer
        too_fast = "the agent ends spans faster than the collector takes them"
        too_large = f"a span of about {buffer.oversized_bytes} bytes, max_buffer_bytes is {buffer.max_bytes}"
        counts = (("buffer_full", buffer.refused, too_fast), ("too_large", buffer.oversized, too_large))
        for reason, count, problem in counts:
            if new := count - self._noted[reason]:
                self._noted[reason] = count
                self._log.lose(f"dropped %d spans ({reason})", new, problem)

    def _log_losses(self) -> None:
        if self._deadline is None:
            self._note_refusals()
            self._log.log_losses()

    def _time_left(self, wanted: float) -> float:
        deadline = self._deadline
        return wanted if deadline is None else max(0.0, min(wanted, deadline - self.monotonic()))

    def _drop(self, reason: str, count: int, problem: str) -> None:
        self.dropped[reason] += count
        self._lose(f"dropped %d spans ({reason})", count, problem)

    def _drop_reports(self, reason: str, count: int, problem: str) -> None:
        self.reports_dropped[reason] += count
        self._lose(f"dropped %d reports ({reason})", count, problem)

    def _lose(self, kind: str, count: int, problem: str) -> None:
        self._log.lose(kind, count, problem)
        self._log_losses()

    def _drop_rest(self) -> None:
        if rest := self.buffer.take(self.buffer.waiting, 1 << 62):
            self._drop("shutdown", len(rest), "the collector did not take them in time")
            self.buffer.settle()
        if reports := len(self._reports):
            self._drop_reports("shutdown", reports, "the collector did not take them in time")
            self._reports.clear()
            self.reports_settled += reports
        self._notify()

    def _notify(self) -> None:
        with self._progress:
            self._progress.notify_all()


def _delay(attempt: int, after: float | None) -> float:
    # A collector may ask for no time at all.
    return min(max(after or 0.0, backoff(attempt)), _MAX_ORDERED_DELAY)
