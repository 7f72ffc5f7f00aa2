"""The detectors beside the agent: they see spans start and end, whether or not the collector is there.

A thread of ours looks at each span soon after its end, and once a second for calls that hang.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from otel_agenteval.context import SpanIdentity
from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import Step, StepKind, StepStarted
from otel_agenteval.finding import Finding
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.loops.attribution import StartedSpan, agent_named, owner_of
from otel_agenteval.loops.light_reader import kind_of, name_of, session_of, step_of
from otel_agenteval.semconv import SERVICE_NAME
from otel_agenteval.sending.announcements import Announcements
from otel_agenteval.sending.background import OwnThread, suppressing_instrumentation
from otel_agenteval.sending.buffer import EndedSpan, attributes_of
from otel_agenteval.sending.throttle import ThrottledLog

MAX_EVENTS: Final = 8192
"""Starts and ends that may wait to be looked at. More are not watched."""
MAX_TRACES: Final = 512
"""Traces that are watched. The one in which nothing happened for longest is forgotten."""
MAX_OPEN: Final = 1024
"""Open spans of a trace that are remembered. A step inside any other span has no agent except one that it names
itself."""

_logger = logging.getLogger("otel_agenteval")


@dataclass(slots=True, eq=False)
class _WatchedTrace:
    """A trace that is watched."""

    detectors: Detectors | None = None
    open: dict[int, StartedSpan] = field(default_factory=dict)
    # The ids of those that are tool or model calls.
    calls: set[int] = field(default_factory=set)
    session_id: str | None = None
    # Loops on spans that have not ended, by span id. They are sent with their span when it ends.
    untold: dict[str, list[Finding]] = field(default_factory=dict)


@dataclass(eq=False)
class Watch:
    """Finds loops in the starts and ends of spans. The thread that takes spans in calls `started` and `ended`.

    Before a call of `look_for_all`, nobody in this process wants to know of loops. Then it looks only for calls that
    hang, among the spans that are open at a `tick`. The collector finds all other loops, and the agent pays nothing for
    them.

    `publish` takes each loop at once. `announce` takes starts, and calls that hang. `now` gives nanoseconds since the
    Unix epoch.
    """

    rules: RuleBook
    publish: Callable[[Finding], None]
    announce: Announcements
    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], int] = time.time_ns

    def __post_init__(self) -> None:
        self._detects = not self.rules.are_off
        self._log = ThrottledLog(_logger, self.monotonic)
        self._events: deque[StartedSpan | EndedSpan] = deque()
        # While nobody hears: spans that began since the last tick, by id. Most of them are over before the next one.
        self._young: dict[int, StartedSpan] = {}
        # Held during a look. A thread that encodes spans, or asks for alarms, first waits for the look at them.
        self._looking = threading.Lock()
        self._traces: LruMap[int, _WatchedTrace] = LruMap(MAX_TRACES)
        self.unwatched = 0
        """Starts and ends that were not looked at, because too many waited."""
        # `unwatched` at the last tick. If it has risen since, ends were missed, and some spans only seem to be open.
        self._missed = -1
        self.is_heard = False
        self.faults = 0

    # These two are here for the processor, which must not load the dialects when it is imported.

    @staticmethod
    def is_call(span: ReadableSpan) -> bool:
        """Return whether a span that starts is a tool or model call, as far as it says so at its start."""
        return kind_of(span.name, span.attributes or {}) is not StepKind.OTHER

    @staticmethod
    def session_named(span: ReadableSpan) -> str | None:
        """Return the session that a span names in an attribute of the conventions; None if it names none."""
        return session_of(span.attributes or {})

    @property
    def has_open(self) -> bool:
        """True while a span is open in which a call may hang."""
        return bool(self._young) or any(trace.open for trace in self._traces.newest_first())

    def look_for_all(self) -> None:
        """Look for all loops from now on, because somebody in this process wants to hear of them."""
        self.is_heard = True

    def started(self, span: ReadableSpan, identity: SpanIdentity | None) -> None:
        """Take a start."""
        if self.is_heard:
            self._take(StartedSpan(span, identity))
        elif (context := span.get_span_context()) is None or len(self._young) >= MAX_EVENTS:
            self.unwatched += 1
        else:
            self._young[context.span_id] = StartedSpan(span, identity)

    def ended(self, span: EndedSpan) -> None:
        """Take an end."""
        if self.is_heard:
            self._take(span)
        else:
            self._forget(span.span)

    def _forget(self, span: ReadableSpan) -> None:
        """Forget a span that began and ended between two ticks, and note on the span around it that it did not hang
        then."""
        context, parent = span.get_span_context(), span.parent
        began = self._young.pop(context.span_id, None) if context is not None else None
        if began is None or context is None or parent is None:
            return
        around = self._young.get(parent.span_id)
        if around is None and (trace := self._traces.peek(context.trace_id)) is not None:
            around = trace.open.get(parent.span_id)
        if around is not None:
            around.stirred_at = max(around.stirred_at, began.stirred_at, span.start_time or 0)

    def _take(self, event: StartedSpan | EndedSpan) -> None:
        if len(self._events) < MAX_EVENTS:
            self._events.append(event)
        else:
            self.unwatched += 1

    def look(self, timeout: float = -1) -> None:
        """Look at all starts and ends that were taken. Ended spans have their `loops` after that.

        If another thread is at it, wait for that one, at most `timeout` seconds (negative: without a limit).
        """
        if not self._looking.acquire(timeout=timeout):
            return
        try:
            if self.is_heard:
                # These began before the first `look_for_all`, and so before all that waits.
                self._look_at_young()
            for _ in range(len(self._events)):
                self._look_at(self._events.popleft())
        finally:
            self._looking.release()

    def _look_at_young(self) -> None:
        for span_id in list(self._young):
            # The thread that takes spans in may have removed it meanwhile.
            if (began := self._young.pop(span_id, None)) is not None:
                self._look_at(began)

    def _look_at(self, event: StartedSpan | EndedSpan) -> None:
        try:
            if isinstance(event, EndedSpan):
                self._look_at_end(event)
            else:
                self._look_at_start(event)
        except Exception as error:  # noqa: BLE001 - a bug of ours costs one step; it is logged and counted
            self._fault(error)

    def tick(self) -> None:
        """Look for loops that show by nothing happening: calls that hang, and time that has run out."""
        # Read before the look: an end that is missed after it counts at the next tick.
        unwatched = self.unwatched
        self.look()
        with self._looking:
            self._look_at_young()
            now = self.now()
            for trace_id, trace in self._traces.items():
                try:
                    if unwatched != self._missed:
                        self._close_unseen(trace)
                    if trace.detectors is not None and trace.open:
                        self._nothing_happened(trace_id, trace, trace.detectors, now)
                except Exception as error:  # noqa: BLE001 - a bug of ours costs one look; it is logged and counted
                    self._fault(error)
        self._missed = unwatched if self.is_heard else -1

    def _close_unseen(self, trace: _WatchedTrace) -> None:
        """Close spans that have ended, but whose ends were missed: they neither hang nor are open."""
        for began in list(trace.open.values()):
            span, context = began.span, began.span.get_span_context()
            if span.end_time is None or context is None:
                continue
            del trace.open[context.span_id]
            trace.calls.discard(context.span_id)
            span_id = format_span_id(context.span_id)
            self.announce.ended(span_id)
            if trace.detectors is not None:
                trace.detectors.observe(
                    Step(kind=StepKind.OTHER, name=span.name, span_id=span_id, ended_at=span.end_time)
                )

    def _nothing_happened(self, trace_id: int, trace: _WatchedTrace, detectors: Detectors, now: int) -> None:
        for span_id, began in trace.open.items():
            if began.stirred_at:
                detectors.hear(format_span_id(span_id), began.stirred_at)
        for loop in self._told(trace_id, trace, detectors.tick(now)):
            self.announce.hung(loop)
            if loop.span_id is not None and int(loop.span_id, 16) in trace.open:
                trace.untold.setdefault(loop.span_id, []).append(loop)

    def _look_at_start(self, event: StartedSpan) -> None:
        span, context = event.span, event.span.get_span_context()
        if context is None:
            return
        trace = self._traces.get_or_make(context.trace_id, _WatchedTrace)
        # A span that is over cannot hang. It matters only if an open call may be around it, which so does not hang.
        matters = span.end_time is None or bool(trace.calls)
        if (matters or self.is_heard) and len(trace.open) < MAX_OPEN:
            trace.open[context.span_id] = event
        if not matters:
            return
        attributes = attributes_of(span)
        self._name(trace, event.identity, attributes)
        start = StepStarted(
            kind=(kind := kind_of(span.name, attributes)),
            name=span.name if kind is StepKind.OTHER else name_of(kind, span.name, attributes),
            span_id=format_span_id(context.span_id),
            parent_id=format_span_id(span.parent.span_id) if span.parent is not None else None,
            agent=owner_of(span, trace.open).agent or agent_named(span, attributes),
            at=span.start_time or 0,
        )
        service = str(span.resource.attributes.get(SERVICE_NAME, ""))
        self.announce.started(start, format_trace_id(context.trace_id), trace.session_id, service)
        if self._detects and kind is not StepKind.OTHER:
            trace.calls.add(context.span_id)
        if trace.calls:
            self._detectors(context.trace_id, trace).observe(start)

    def _look_at_end(self, ended: EndedSpan) -> None:
        span, context = ended.span, ended.span.get_span_context()
        if context is None:
            return
        trace = self._traces.get_or_make(context.trace_id, _WatchedTrace)
        trace.open.pop(context.span_id, None)
        span_id = f"{context.span_id:016x}"
        self.announce.ended(span_id)
        if not self._detects:
            return
        attributes = ended.attributes
        self._name(trace, ended.identity, attributes)
        around = owner_of(span, trace.open)
        step = step_of(
            span_id=span_id,
            name=span.name,
            attributes=attributes,
            events=_events(ended),
            failed=span.status.status_code is StatusCode.ERROR,
            status_message=span.status.description,
            agent=around.agent or agent_named(span, attributes),
            agent_run=around.agent_run,
            started_at=span.start_time,
            ended_at=span.end_time,
        )
        trace.calls.discard(context.span_id)
        untold = trace.untold.pop(span_id, ())
        if step is not None:
            loops = self._detectors(context.trace_id, trace).observe(step)
            ended.loops = (*untold, *self._told(context.trace_id, trace, loops)) if loops or untold else ()
        elif trace.detectors is not None:
            trace.detectors.observe(Step(kind=StepKind.OTHER, name=span.name, span_id=span_id, ended_at=span.end_time))
            ended.loops = tuple(untold) or None

    def _told(self, trace_id: int, trace: _WatchedTrace, findings: list[Finding]) -> Iterator[Finding]:
        for loop in findings:
            finding = replace(loop, session_id=trace.session_id or format_trace_id(trace_id))
            self.publish(finding)
            yield finding

    def _detectors(self, trace_id: int, trace: _WatchedTrace) -> Detectors:
        if trace.detectors is None:
            # The session may be known later than the first step.
            trace.detectors = Detectors("", format_trace_id(trace_id), self.rules)
        return trace.detectors

    def _name(self, trace: _WatchedTrace, identity: SpanIdentity | None, attributes: Mapping[str, Any]) -> None:
        """Note the session of a trace. One from the application outranks those on spans."""
        if identity is not None and identity.session_id is not None:
            trace.session_id = identity.session_id
        elif trace.session_id is None:
            trace.session_id = session_of(attributes)

    def _fault(self, error: Exception) -> None:
        self.faults += 1
        self._log.warning("watch", "agenteval failed on a span while looking for loops", exc_info=error)


def _events(ended: EndedSpan) -> Iterator[tuple[str, Mapping[str, Any]]]:
    # A generator, because most spans are read without their events.
    for event in ended.events:
        yield event.name, event.attributes or {}


GATHER: Final = 0.002
"""Seconds from a wake to the look, so that spans that end in quick succession share one."""
TICK: Final = 1.0
"""Seconds between looks for what hangs, while spans are open."""
_IDLE: Final = 30.0


class WatchThread:
    """Runs a `Watch` on a thread. `take_in` gives it what has come. When it stops, it looks at what is left."""

    def __init__(self, watch: Watch, take_in: Callable[[], None], monotonic: Callable[[], float]) -> None:
        self._watch = watch
        self._take_in = take_in
        self._monotonic = monotonic
        self._thread = OwnThread("agenteval-watch", self._run)
        self.start, self.wake, self.stop = self._thread.start, self._thread.wake, self._thread.stop
        self.is_ticking = False
        """True while the thread looks again soon without being woken."""

    def _run(self) -> None:
        # Attributes may be objects of the application, whose code must not make spans here.
        with suppressing_instrumentation():
            ticked_at = self._monotonic()
            while not self._thread.is_stopping:
                if self._thread.wait(TICK if self.is_ticking else _IDLE, gather=GATHER):
                    self.is_ticking = True
                    self._look()
                else:
                    # Set before the look: a span that starts later wakes this thread, one that started before is seen.
                    self.is_ticking = False
                    self._look()
                    self.is_ticking = self._watch.has_open
                if self._monotonic() - ticked_at >= TICK:
                    self._take_in()
                    self._watch.tick()
                    ticked_at = self._monotonic()
            self._look()

    def _look(self) -> None:
        self._take_in()
        self._watch.look()
