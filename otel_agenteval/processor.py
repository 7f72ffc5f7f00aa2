"""The span processor: it notes the identity of a span at its start, and hands the span over for sending at its end."""

import atexit
import logging
import os
import secrets
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import Context, get_current
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import SpanContext, format_trace_id

from otel_agenteval.config import Destination, Options, extent_of_redaction, resolve
from otel_agenteval.context import IDENTITY_KEY, SpanIdentity, identity_in, witness_in
from otel_agenteval.loops.guard import AgentLoopDetected, is_guarded, process_wide
from otel_agenteval.loops.listener import Listener
from otel_agenteval.loops.settings import client_rules
from otel_agenteval.loops.verdicts import Alarm, Verdicts
from otel_agenteval.sending.announcements import Announcements
from otel_agenteval.sending.background import suppressing_instrumentation
from otel_agenteval.sending.buffer import EndedSpan, SpanBuffer
from otel_agenteval.sending.encoding import Encoder
from otel_agenteval.sending.export import ExportThread
from otel_agenteval.sending.intake import SpanIntake
from otel_agenteval.sending.open_traces import TraceTable
from otel_agenteval.sending.transport import Transport
from otel_agenteval.stats import Stats
from otel_agenteval.verdict import Verdict, verdict_of
from otel_agenteval.worker_ends import WorkerEnds

if TYPE_CHECKING:
    from otel_agenteval.sending.redacting import SpanRedaction

MAX_BUFFER_SPANS: Final = 32_768
MAX_BUFFER_BYTES: Final = 64 * 1024 * 1024
SHUTDOWN_TIMEOUT: Final = 5.0
LOOK_TIMEOUT: Final = 0.1
"""Seconds that a call under guard waits while another thread looks at the calls before it."""
TAKE_IN_TIMEOUT: Final = 1.0
"""Seconds that `stats` waits while another thread takes spans in."""

_logger = logging.getLogger("otel_agenteval")


class AgentEvalSpanProcessor(SpanProcessor):
    """Streams every sampled span to the collector, with its session, user and run, and marks the end of each trace.

    It stands beside the exporters of a provider and changes nothing for them. `on_start` and `on_end` do constant work,
    wait for nothing and raise nothing. Threads of our own, which start with the first span, encode and send. When the
    buffer is full, new spans are dropped and counted.

    Where spans go:

    - `endpoint`: the collector. Without it, AGENTEVAL_ENDPOINT counts, else OTEL_EXPORTER_OTLP_ENDPOINT (if it is for
      gRPC, and no other exporter uses it), else 127.0.0.1:4317.
    - `headers` go with every request, beside AGENTEVAL_HEADERS, and AGENTEVAL_API_KEY as a bearer token.
    - `insecure` chooses plain text or TLS for an endpoint without scheme.
    - `certificate` is a PEM file of roots to trust.

    What is sent:

    - `stamp` also writes the identity on the spans themselves, for other exporters to see.
    - `redact` replaces "secrets", or "all" with personal data, before a span leaves (docs/redaction.md). Without it,
      AGENTEVAL_REDACT counts.
    - `live` also sends the starts of spans, so that the collector knows what is running.
    - `max_buffer_spans` and `max_buffer_bytes` bound the spans that wait for the collector.
    - `shutdown_timeout` bounds the seconds of the last delivery at exit. It takes half a second at most if no collector
      was ever reached.

    Loops (docs/loops.md):

    - `on_verdict` gets every verdict on this process's sessions, those of the collector included, on a thread of ours.
    - `loops` are rules in the shape of the collector's setting of this name. AGENTEVAL_LOOPS__* add to them.
    - Loops are looked for in this process if somebody wants to know of them here: by `on_verdict`, `live`, `loops`,
      `current_verdict` or `stop_on_loop`. Otherwise the collector finds them, and only hangs are looked for here.

    Raises ValueError for an invalid endpoint or invalid options.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        insecure: bool | None = None,
        certificate: str | None = None,
        stamp: bool = False,
        max_buffer_spans: int = MAX_BUFFER_SPANS,
        max_buffer_bytes: int = MAX_BUFFER_BYTES,
        shutdown_timeout: float = SHUTDOWN_TIMEOUT,
        on_verdict: Callable[[Verdict], object] | None = None,
        loops: Mapping[str, Any] | None = None,
        live: bool = False,
        redact: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        for name, bound in (("max_buffer_spans", max_buffer_spans), ("max_buffer_bytes", max_buffer_bytes)):
            if bound < 1:
                raise ValueError(f"{name} is {bound}: give at least 1")
        self._options = Options(endpoint=endpoint, headers=headers, insecure=insecure, certificate=certificate)
        # Only to raise for invalid options now. The destination is resolved again at the first request, because an
        # exporter that is made later may claim the OTEL endpoint.
        resolve(self._options, os.environ, sys.modules)
        self._destination: Destination | None = None
        self._rules = client_rules(loops, os.environ)
        self._on_verdict = on_verdict
        self._live = live
        self._redact = extent_of_redaction(redact, os.environ)
        self._watches = live or not self._rules.are_off
        self._stamp = stamp
        self._max_buffer = (max_buffer_spans, max_buffer_bytes)
        self._shutdown_timeout = shutdown_timeout
        self._monotonic = monotonic
        self._table = TraceTable(monotonic)
        self._stopped = False
        self._faults = 0
        self._begin()
        try:
            self._first_minute.start()
        except RuntimeError as error:
            # The process may have no more threads. Then it does without the warning.
            _logger.debug("agenteval does not wait for the first span: %s", error)
        with _live_lock:
            _live.add(self)
        _worker_ends.ask()

    def _begin(self) -> None:
        """Make everything that a forked child must not share with its parent process."""
        # Not at the top: these load the dialects, and an import of the package must not wait for them.
        from otel_agenteval.doctor.first_minute import FirstMinute  # noqa: PLC0415
        from otel_agenteval.loops.watch import Watch, WatchThread  # noqa: PLC0415

        # Re-entrant: a signal handler may take it on a thread that holds it.
        self._lock = threading.RLock()
        self._buffer = SpanBuffer(*self._max_buffer)
        self._transport = Transport(lambda: self.destination)
        self._encoder = Encoder(process_id(), self._redaction())
        self.verdicts = Verdicts(self._on_verdict, self._monotonic)
        self._announcements = Announcements(
            process_id(),
            self._live,
            self._wake,
            self._monotonic,
        )
        self._watch = Watch(
            self._rules,
            lambda loop: self.verdicts.publish(verdict_of(loop)),
            self._announcements,
            self._monotonic,
        )
        self._intake = SpanIntake(
            self._table,
            self._buffer,
            self._watch if self._watches else None,
            self._wake,
            self._fault,
        )
        self._watch_thread = WatchThread(self._watch, self._intake.take_in, self._monotonic)
        self._first_minute = FirstMinute(
            lambda: len(self._intake) > 0 or self._buffer.waiting > 0 or self._table.open_spans > 0, self._monotonic
        )
        self._export = ExportThread(
            self._intake,
            self._buffer,
            self._transport,
            self._encoder,
            self._monotonic,
            self._announcements,
            self._look_at,
        )
        self._listener = Listener(lambda: self.destination, process_id(), self.verdicts.publish, self._monotonic)
        self._listens = self._on_verdict is not None
        # Rules that this agent was given are not known to the collector, so only detectors here can apply them.
        if self._listens or self._live or self._rules != client_rules(None, {}):
            self._hear()
        self._reports_dropped: Counter[str] = Counter()

    def _wake(self) -> None:
        self._export.wake()

    def _redaction(self) -> "SpanRedaction | None":
        if self._redact is None:
            return None
        # Imported here, because its tables take a while to load, and most agents do without redaction.
        from otel_agenteval.sending.redacting import SpanRedaction  # noqa: PLC0415

        return SpanRedaction(self._redact)

    @property
    def destination(self) -> Destination:
        """The address that spans go to."""
        if self._destination is None:
            self._destination = resolve(self._options, os.environ, sys.modules)
        return self._destination

    @property
    def stats(self) -> Stats:
        """The statistics so far. Waits at most TAKE_IN_TIMEOUT seconds for a thread that takes spans in."""
        sender, buffer, intake = self._export, self._buffer, self._intake
        intake.take_in(timeout=TAKE_IN_TIMEOUT)
        with self._lock:
            refused = buffer.refused + intake.lost
            on_the_way_in = Counter(buffer_full=refused, shutdown=intake.too_late, too_large=buffer.oversized)
            reports = self._reports_dropped + sender.reports_dropped
            reports["waiting"] = sender.reports_accepted - sender.reports_settled
            reports["delivered"] = sender.reports_delivered
            return Stats(
                handed_over=buffer.accepted + refused + buffer.oversized + intake.too_late,
                exported=sender.exported,
                rejected=sender.rejected,
                dropped=dict(sender.dropped + on_the_way_in),
                buffered=buffer.accepted - buffer.settled,
                buffered_bytes=buffer.accepted_bytes - buffer.settled_bytes,
                reports=dict(reports),
                verdicts=self.verdicts.found,
                unhandled_verdicts=self.verdicts.unhandled,
                unwatched=self._watch.unwatched,
                unannounced=self._announcements.dropped,
                evicted=self._table.evicted_spans,
                lost_attributes=self._encoder.lost_attributes,
                faults=self._faults + sender.faults + self._watch.faults,
            )

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Note the span's identity. Raises AgentLoopDetected under the guard (`stop_on_loop`), and nothing else."""
        try:
            # The same as `identity_in`, without its calls, because this runs for every span on the agent's own thread.
            context = get_current() if parent_context is None else parent_context
            identity: Any = context.get(IDENTITY_KEY)
            around: SpanIdentity | Context | None = context
            if identity is None:
                if parent_context is not None:
                    # A span whose context was made from nothing still starts inside a `session()` around it.
                    around = identity_in(None) or context
            elif identity.run_id is not None and (witness := witness_in(context)):
                witness.see(span.resource.attributes)
            # Most processes have neither, and must not pay for them.
            if self._stamp or process_wide.used:
                self._start_at_once(span, identity, around, context)
            intake = self._intake
            intake.events.append((span, identity, around))
            if len(intake.events) > intake.limit:
                intake.relieve()
            # Threads that look again soon need no wake, except if starts are to be announced at once.
            if self._live or not self._watch_thread.is_ticking:
                self._attend()
        except Exception as error:  # noqa: BLE001 - no bug of ours may reach the agent; counted and logged
            self._fault(error)

    def on_end(self, span: ReadableSpan) -> None:
        """Queue the span for sending, and wake the export thread if this may be the end of its trace."""
        try:
            parent = span.parent
            self._intake.events.append(span)
            may_close = parent is None or parent.is_remote or self._table.without_root
            # A thread that has something urgent to send is awake. Another wake would only cost a thread switch.
            if (may_close or self._export.sleeps) and not self._buffer.is_urgent:
                self._export.wake()
            if self._watch.is_heard:
                self._watch_thread.wake()
        except Exception as error:  # noqa: BLE001 - no bug of ours may reach the agent; counted and logged
            self._fault(error)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until the collector has answered for every span and report so far. False if it has not in time."""
        self._intake.hurry(timeout_millis / 1000)
        return self._export.flush(timeout_millis / 1000)

    def shutdown(self) -> None:
        """Deliver what is buffered within `shutdown_timeout`. The rest is dropped and counted, and so is every later
        span."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        self._intake.stop(self._shutdown_timeout)
        self._listener.stop()
        self._watch_thread.stop()
        self._export.stop(self._shutdown_timeout)
        self._first_minute.stop()
        self.verdicts.stop()

    def report(self, method: str, request: bytes) -> None:
        """Queue an encoded report for a method of the collector. Never waits. With a full queue, it is dropped and
        counted."""
        with self._lock:
            if self._stopped:
                self._reports_dropped["shutdown"] += 1
            elif not self._export.add_report(method, request):
                self._reports_dropped["queue_full"] += 1
            else:
                try:
                    self._export.start()
                except RuntimeError as error:
                    # The process ends, or may have no more threads. The report waits for the next try, or the end.
                    self._fault(error)

    def look(self) -> None:
        """Look for loops in the spans that have ended so far, on the calling thread.

        If the watch thread is at it, wait for that one, at most LOOK_TIMEOUT seconds.
        """
        if self._watches:
            with suppressing_instrumentation():
                self._intake.take_in(timeout=LOOK_TIMEOUT)
                self._watch.look(LOOK_TIMEOUT)

    def alarm(self, session_id: str | None, trace_id: str | None) -> Alarm | None:
        """Return the newest alarm on the session or the trace. The first call begins to listen for the collector's."""
        self._listen()
        return self.verdicts.alarm(session_id, trace_id)

    def stopping_alarm(self, session_id: str | None, trace_id: str | None) -> Alarm | None:
        """Return the alarm for which a guard must stop the trace now; None if the trace may go on."""
        self._listen()
        with self._lock:
            # The trace's own comes first: the session's may be a newer one, on a trace beside it.
            for alarm in self.verdicts.alarms(session_id, trace_id):
                if alarm.stops(trace_id, lambda own: self._table.is_open(int(own, 16))):
                    alarm.stopped = alarm.stopped or trace_id or alarm.verdict.trace_id
                    return alarm
        return None

    def _look_at(self, batch: Sequence[EndedSpan]) -> None:
        """Look at spans that are about to be sent. The export thread calls this."""
        if self._watch.is_heard:
            self._watch.look()
        self._first_minute.see(batch)

    def _listen(self) -> None:
        if not self._listens:
            self._listens = True
            self._hear()
            try:
                self._listener.start()
            except RuntimeError as error:
                # The process ends, or may have no more threads. A question about verdicts must not fail for that.
                self._fault(error)

    def _hear(self) -> None:
        if self._watches:
            self._watch.look_for_all()

    def _guard(self, span: Span, context: SpanContext, identity: SpanIdentity | None) -> None:
        """Raise AgentLoopDetected if the call belongs to an agent that must stop."""
        if not self.verdicts.has_alarms:
            return
        session_id = identity.session_id if identity is not None else None
        alarm = self.stopping_alarm(session_id or self._watch.session_named(span), format_trace_id(context.trace_id))
        if alarm is not None:
            raise AgentLoopDetected(alarm.verdict)

    def _start_at_once(
        self, span: Span, identity: SpanIdentity | None, around: SpanIdentity | Context | None, within: Context
    ) -> None:
        """Do what cannot wait until the start is taken in: write the identity on the span, and apply the guard."""
        context = span.get_span_context()
        if context is None or not context.trace_flags.sampled or self._stopped:
            return
        is_guarded_call = False
        if process_wide.used:
            self._hear()
            if is_guarded(within):
                self._listen()
                is_guarded_call = self._watch.is_call(span)
        self._intake.take_in(timeout=LOOK_TIMEOUT)
        identity = self._intake.identity_of(context, span.parent, identity, around)
        if is_guarded_call:
            self.look()
            self._guard(span, context, identity)
        if self._stamp and identity is not None:
            span.set_attributes(identity.attributes())

    def _attend(self) -> None:
        """Start the threads, and wake the one that watches."""
        if self._stopped:
            return
        self._export.start()
        if self._watches:
            self._watch_thread.start()
            self._watch_thread.wake()
        if self._on_verdict is not None:
            self._listener.start()

    def _fault(self, error: Exception) -> None:
        self._faults += 1
        if self._faults == 1:
            _logger.error("agenteval failed on a span and goes on; this is logged once", exc_info=error)

    def _after_fork(self) -> None:
        # The parent sends its spans itself. Its connections stay referenced, because closing them here would disturb
        # it.
        _inherited_connections.append((self._transport, self._listener))
        self._intake.disown()
        self._destination = None
        self._faults = 0
        self._begin()


# Re-entrant: a signal handler may ask for the processors on a thread that holds it.
_live_lock = threading.RLock()
_live: weakref.WeakSet[AgentEvalSpanProcessor] = weakref.WeakSet()
_inherited_connections: list[tuple[Transport, Listener]] = []
_process_id = secrets.token_hex(8)


def process_id() -> str:
    """Return the random name of this process in completion markers. A forked child gets another one."""
    return _process_id


def report_everywhere(what: str, method: str, request: bytes) -> None:
    """Queue an encoded report for every collector that this process sends to. Never waits.

    Logs a warning about `what` if there is no collector.
    """
    processors = {processor.destination.target: processor for processor in live_processors()}
    if not processors:
        _logger.warning("%s goes nowhere: call otel_agenteval.attach() first", what)
    for processor in processors.values():
        processor.report(method, request)


def live_processors() -> list[AgentEvalSpanProcessor]:
    """Return the processors of this process that are not shut down."""
    with _live_lock:
        return [processor for processor in _live if not processor._stopped]


@atexit.register
def _shut_down_all() -> None:
    for processor in live_processors():
        processor.shutdown()


def _renew_after_fork() -> None:
    global _live_lock, _process_id  # noqa: PLW0603 - one process, one id
    _live_lock = threading.RLock()
    _process_id = secrets.token_hex(8)
    for processor in live_processors():
        processor._after_fork()
    _worker_ends.ask()


_worker_ends = WorkerEnds(_shut_down_all)


def _note_fork() -> None:
    for processor in live_processors():
        processor._first_minute.forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_note_fork, after_in_child=_renew_after_fork)
