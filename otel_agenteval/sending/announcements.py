"""Announcements to the collector of spans that are open, and of calls that hang. Best effort, and bounded.

A span itself is sent at its end only. All open spans are announced again every few seconds. So the collector knows that
the process lives, and a collector that has just started learns what is running.
"""

import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from otel_agenteval.detectors.rules import LoopKind
from otel_agenteval.detectors.steps import StepKind, StepStarted
from otel_agenteval.finding import Finding
from otel_agenteval.internal.text import storable
from otel_agenteval.proto.v1 import evaluation_pb2 as pb

MAX_STARTS: Final = 2048
"""Starts that may wait. The oldest is dropped for a new one."""
MAX_LOOPS: Final = 256
"""Loops that may wait. The oldest is dropped for a new one."""
MAX_OPEN: Final = 8192
"""Open spans that are remembered. A span that begins while there are so many is announced once, and not again."""
MAX_TOLD: Final = 1024
"""Open spans that are announced again: the oldest ones, because the others are inside them."""
LINGER: Final = 0.05
"""Seconds for which starts are gathered. A span that ends within this time is not announced."""
ALIVE: Final = 5.0
"""Seconds after which a process announces its open spans again."""

_SAID: Final = ("kind", "severity", "mode", "session_id", "trace_id", "span_id", "agent", "tool", "reason")
"""The fields of a loop that are announced."""
_FOREVER: Final = 1e9


@dataclass(eq=False)
class Announcements:
    """Gathers what to announce. The watch thread fills it, the export thread empties it.

    With `live`, starts of spans are announced too, else hanging calls alone. Neither thread waits for the other. So a
    start that is noted while others are taken may be announced late, or not at all.
    """

    process_id: str
    live: bool
    wake: Callable[[], None]
    monotonic: Callable[[], float]
    now: Callable[[], int] = time.time_ns

    def __post_init__(self) -> None:
        self._service = ""
        # Dicts keep their order, and `copy` is one step: it is safe while another thread changes them.
        self._starts: dict[str, pb.SpanStart] = {}
        self._open: dict[str, pb.SpanStart] = {}
        self._loops: deque[pb.Finding] = deque(maxlen=MAX_LOOPS)
        self._due = _FOREVER
        self._not_before = 0.0
        self._tell_again_at = self.monotonic() + ALIVE
        # True if something is to be announced at `_tell_again_at`: spans that are open, or that none is any more.
        self._tells = False
        # True while the collector believes that spans are open: it was told of some, and not yet that all have ended.
        self._holds = False
        self.dropped = 0
        """Starts and loops that were not announced, because too many waited or the collector refused them."""

    def started(self, start: StepStarted, trace_id: str, session_id: str | None, service: str) -> None:
        """Note that a span began. `service` is the `service.name` of its process."""
        self._service = storable(service)
        if not self.live:
            return
        if len(self._starts) >= MAX_STARTS:
            self._starts.pop(next(iter(self._starts)), None)
            self.dropped += 1
        self._begin(
            pb.SpanStart(
                trace_id=trace_id,
                span_id=start.span_id,
                parent_span_id=start.parent_id or "",
                name=storable(start.name),
                kind=start.kind.value,
                session_id=storable(session_id or ""),
                agent=storable(start.agent or ""),
                started_at_unix_nano=start.at,
            )
        )
        self._hurry()

    def ended(self, span_id: str) -> None:
        """Note that a span ended. It is announced no more."""
        self._open.pop(span_id, None)
        self._starts.pop(span_id, None)

    def hung(self, loop: Finding) -> None:
        """Note that a call hangs, and its span may never end."""
        if len(self._loops) == MAX_LOOPS:
            self.dropped += 1
        fields: dict[str, Any] = {name: storable(value) for name in _SAID if (value := getattr(loop, name)) is not None}
        metadata = json.dumps(loop.metadata).encode()
        self._loops.append(pb.Finding(**fields, found_at_unix_nano=self.now(), metadata_json=metadata))
        if loop.kind == LoopKind.HUNG_SPAN and loop.span_id not in self._open:
            self._begin(self._hanging(loop))
        self._hurry()

    def seconds_left(self) -> float:
        """Return the seconds until the next announcement. 0 or less means now."""
        return max(self._due, self._not_before) - self.monotonic()

    def take(self, *, delivered: bool = True) -> pb.ReportStartsRequest | None:
        """Return the report to send now. None if there is nothing to tell.

        `delivered` says that the collector has all spans that ended. While it is False, the report does not claim to
        name all open spans: to the collector, a span that ended and is still on its way must look open.
        """
        if self.seconds_left() > 0:
            return None
        now = self.monotonic()
        request = pb.ReportStartsRequest(process_id=self.process_id, service=self._service)
        starts, self._starts = self._starts, {}
        # An empty report is sent once when nothing is open any more, because some ended spans never reach the
        # collector.
        is_due = False
        if now >= self._tell_again_at:
            is_open = self._open.copy()
            request.all_open = delivered and len(is_open) <= MAX_TOLD
            starts = {**dict(islice(is_open.items(), MAX_TOLD)), **starts}
            self._tell_again_at = now + ALIVE
            is_due, self._tells = self._tells, self._tells and not delivered
        self._tells = self._tells or bool(starts)
        request.starts.extend(starts.values())
        request.findings.extend(self._loops.popleft() for _ in range(len(self._loops)))
        self._due = self._tell_again_at if self._tells else _FOREVER
        return request if request.starts or request.findings or is_due else None

    def taken(self, request: pb.ReportStartsRequest) -> None:
        """Note that the collector has taken the report."""
        self._holds = bool(request.starts) or (self._holds and not request.all_open)

    def put_off(self, request: pb.ReportStartsRequest, seconds: float) -> None:
        """Note that the collector was away. In `seconds` it is told of the spans that are open then, and of all
        loops."""
        for loop in reversed(request.findings):
            if len(self._loops) < MAX_LOOPS:
                self._loops.appendleft(loop)
            else:
                self.dropped += 1
        self._not_before = self._tell_again_at = self.monotonic() + seconds
        self._tells = self._holds or bool(request.starts)
        self._due = self._not_before if self._tells or request.findings else _FOREVER

    def give_up(self, request: pb.ReportStartsRequest) -> None:
        """Count the report as dropped, because the collector refuses it: one that is older than this client does."""
        self.dropped += len(request.starts) + len(request.findings)

    def _begin(self, start: pb.SpanStart) -> None:
        self._starts[start.span_id] = start
        if len(self._open) < MAX_OPEN:
            self._open[start.span_id] = start

    def _hanging(self, loop: Finding) -> pb.SpanStart:
        """Make the start of a span that was not announced before it hung."""
        fields = loop.metadata
        kind = next((kind for kind in (StepKind.TOOL, StepKind.MODEL) if kind in fields), StepKind.OTHER)
        silence = fields.get("silent_seconds")
        return pb.SpanStart(
            trace_id=loop.trace_id,
            span_id=loop.span_id,
            name=storable(str(fields.get(kind, ""))),
            kind=kind.value,
            session_id=storable(loop.session_id) if loop.session_id != loop.trace_id else "",
            agent=storable(loop.agent or ""),
            started_at_unix_nano=self.now() - (round(silence * 1e9) if isinstance(silence, float) else 0),
        )

    def _hurry(self) -> None:
        if self._due > (due := self.monotonic() + LINGER):
            self._due = due
            self.wake()
