"""The verdicts on this process's sessions, from the detectors here and from the collector, each once.

They go to the `on_verdict` handler, on a thread of ours. Alarms are also remembered, for the agent to ask at any time.
"""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from opentelemetry import trace as trace_api

from otel_agenteval.context import identity_in
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.sending.background import OwnThread
from otel_agenteval.sending.throttle import ThrottledLog
from otel_agenteval.verdict import Verdict

MAX_ALARMS: Final = 1024
"""Sessions and traces whose newest alarm is remembered."""
REMEMBER: Final = 600.0
"""Seconds that an alarm is remembered."""
MAX_KNOWN: Final = 4096
"""Verdicts that are remembered, so that one that the collector sends too is not told twice."""
MAX_WAITING: Final = 256
"""Verdicts that may wait for the handler. More are dropped and counted."""

_IDLE: Final = 30.0
_STOP_TIMEOUT: Final = 1.0

_logger = logging.getLogger("otel_agenteval")

Handler = Callable[[Verdict], object]


@dataclass(slots=True)
class Alarm:
    """An alarming verdict that is remembered."""

    verdict: Verdict
    at: float
    stopped: str | None = None
    """The trace that a guard stopped because of it."""

    def stops(self, trace_id: str | None, own_is_open: Callable[[str], bool]) -> bool:
        """Return whether a guard is to stop this trace: the verdict's own or, once that is over, the session's next
        one.

        Code outside a span (None) is stopped while the verdict's own trace is open: it may belong to that, because some
        instrumentations leave their spans out of the context.
        """
        if trace_id is None:
            return own_is_open(self.verdict.trace_id)
        if trace_id in (self.verdict.trace_id, self.stopped):
            return True
        return self.stopped is None and not own_is_open(self.verdict.trace_id)


class Verdicts:
    """Remembers alarms, and gives verdicts to the handler. Our threads call `publish`, the agent's `alarm`; neither
    waits."""

    def __init__(self, handler: Handler | None, monotonic: Callable[[], float]) -> None:
        self._handler = handler
        self._stopped = False
        self._monotonic = monotonic
        self._log = ThrottledLog(_logger, monotonic)
        # Re-entrant: a signal handler may call `stop` on a thread that holds it.
        self._lock = threading.RLock()
        self._known: LruMap[tuple[str, ...], bool] = LruMap(MAX_KNOWN)
        # By session id and by trace id. The agent's threads read it without the lock (`peek`).
        self._alarms: LruMap[str, Alarm] = LruMap(MAX_ALARMS)
        self._waiting: queue.Queue[Verdict | None] = queue.Queue(MAX_WAITING)
        self._thread = OwnThread("agenteval-verdicts", self._handle)
        self.found = 0
        """The number of different verdicts."""
        self.unhandled = 0
        """Verdicts that the handler did not get, because it was too slow."""
        self.failures = 0
        """Exceptions of the handler."""

    def publish(self, verdict: Verdict) -> None:
        """Take a verdict, unless it is known already."""
        with self._lock:
            key = _identity(verdict)
            if key in self._known:
                return
            self._known.put(key, True)
            self.found += 1
            if verdict.is_alarm:
                self._remember(verdict)
            if self._handler is not None and not self._stopped:
                self._hand_over(verdict)

    def alarm(self, session_id: str | None, trace_id: str | None) -> Alarm | None:
        """Return the newest alarm on the session or the trace; None if there is none within the last ten minutes."""
        return max(self.alarms(session_id, trace_id), key=lambda alarm: alarm.at, default=None)

    def alarms(self, session_id: str | None, trace_id: str | None) -> list[Alarm]:
        """Return the trace's newest alarm and then the session's, as far as they are of the last ten minutes."""
        found = [alarm for key in (trace_id, session_id) if key is not None and (alarm := self._alarms.peek(key))]
        return [alarm for alarm in found if self._monotonic() - alarm.at <= REMEMBER]

    @property
    def has_alarms(self) -> bool:
        """True while any alarm may be remembered."""
        return self._alarms.weight > 0

    def stop(self) -> None:
        """Let the handler have the verdicts that wait, and end its thread. A handler that hangs is left alone."""
        with self._lock:
            self._stopped = True
        if not self._thread.started:
            return
        try:
            self._waiting.put(None, timeout=_STOP_TIMEOUT)
        except queue.Full:
            return
        self._thread.join(_STOP_TIMEOUT)

    def _remember(self, verdict: Verdict) -> None:
        alarm = Alarm(verdict, self._monotonic())
        for key in {verdict.session_id, verdict.trace_id}:
            self._alarms.put(key, alarm)

    def _hand_over(self, verdict: Verdict) -> None:
        try:
            self._waiting.put_nowait(verdict)
        except queue.Full:
            self.unhandled += 1
            self._log.warning("slow", "on_verdict is too slow: a verdict was dropped")
            return
        try:
            self._thread.start()
        except RuntimeError as error:
            # The process ends, or may have no more threads: the next verdict tries again.
            self._log.warning("thread", "on_verdict is not called: %s", error)

    def _handle(self) -> None:
        handler = self._handler
        warnings = ThrottledLog(_logger, self._monotonic)
        while handler is not None:
            try:
                verdict = self._waiting.get(timeout=_IDLE)
            except queue.Empty:
                continue
            if verdict is None:
                return
            try:
                handler(verdict)
            except BaseException as error:  # noqa: BLE001 - an error of the application; logged, the next verdict may pass
                self.failures += 1
                warnings.warning("handler", "on_verdict failed", exc_info=error)


def _identity(verdict: Verdict) -> tuple[str, ...]:
    """Return a key that is the same for the same verdict: a trace has one judged verdict of an evaluator, a span one
    loop of a kind."""
    if verdict.kind is None:
        return verdict.trace_id, verdict.name
    if verdict.kind in LOOP_KINDS:
        return verdict.trace_id, verdict.kind, verdict.span_id
    return verdict.trace_id, verdict.kind, verdict.span_id, verdict.reason


def current_ids() -> tuple[str | None, str | None]:
    """Return the ids of the current session and trace, None for what the context does not hold."""
    identity = identity_in(None)
    context = trace_api.get_current_span().get_span_context()
    session_id = identity.session_id if identity is not None else None
    return session_id, trace_api.format_trace_id(context.trace_id) if context.is_valid else None
