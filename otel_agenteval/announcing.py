"""What the collector is told ahead of spans: which began, and which hang. Best effort, and bounded."""

import json
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from otel_agenteval.detectors import StepStarted, Verdict
from otel_agenteval.proto.v1 import evaluation_pb2 as pb

MAX_STARTS: Final = 2048
"""Starts that may wait; the oldest is dropped for a new one."""
MAX_VERDICTS: Final = 256
"""Verdicts that may wait; the oldest is dropped for a new one."""
MAX_OPEN: Final = 8192
"""Open spans that are told apart, to know whether the process is at work."""
LINGER: Final = 0.05
"""Seconds for which starts are gathered; spans that end within it are not announced."""
ALIVE: Final = 10.0
"""Seconds without an announcement after which a process with open spans says that it lives."""

_FOREVER: Final = 1e9


class Announcements:
    """Filled by the thread that watches, emptied by the one that sends. `live`: starts are announced, not only hangs.

    Neither thread waits for the other: a start that is noted while others are taken may be announced late or not.
    """

    def __init__(
        self,
        process_id: str,
        live: bool,
        wake: Callable[[], None],
        monotonic: Callable[[], float],
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._process_id = process_id
        self._live = live
        self._wake = wake
        self._monotonic = monotonic
        self._now = now
        self._service = ""
        self._starts: OrderedDict[str, pb.SpanStart] = OrderedDict()
        self._verdicts: deque[pb.Verdict] = deque(maxlen=MAX_VERDICTS)
        self._open: set[str] = set()
        self._due = _FOREVER
        self._not_before = 0.0
        self.dropped = 0
        """Starts and verdicts that were not announced, because too many waited or the collector refused them."""

    def started(self, start: StepStarted, trace_id: str, session_id: str | None, service: str) -> None:
        """A span began; `service` is the `service.name` of its process."""
        if not self._live:
            return
        self._service = service
        if len(self._open) < MAX_OPEN:
            self._open.add(start.span_id)
        if len(self._starts) >= MAX_STARTS:
            self._starts.popitem(last=False)
            self.dropped += 1
        self._starts[start.span_id] = pb.SpanStart(
            trace_id=trace_id,
            span_id=start.span_id,
            parent_span_id=start.parent_id or "",
            name=start.name,
            kind=start.kind.value,
            session_id=session_id or "",
            agent=start.agent or "",
            started_at_unix_nano=start.at,
        )
        self._hurry()

    def ended(self, span_id: str) -> None:
        """A span ended: it tells of itself from here on."""
        if self._live:
            self._open.discard(span_id)
            self._starts.pop(span_id, None)

    def hung(self, verdict: Verdict) -> None:
        """A call hangs, and its span may never end."""
        if len(self._verdicts) == MAX_VERDICTS:
            self.dropped += 1
        self._verdicts.append(
            pb.Verdict(
                name=verdict.name,
                kind=verdict.kind,
                mode=verdict.mode.value,
                session_id=verdict.session_id,
                trace_id=verdict.trace_id,
                span_id=verdict.span_id,
                reason=verdict.reason,
                found_at_unix_nano=self._now(),
                metadata_json=json.dumps(verdict.metadata).encode(),
            )
        )
        self._hurry()

    def seconds_left(self) -> float:
        """Until something is to be announced; 0 or less: now."""
        return max(self._due, self._not_before) - self._monotonic()

    def take(self) -> pb.ReportStartsRequest | None:
        """What is to be announced now; None where there is nothing."""
        if self.seconds_left() > 0:
            return None
        request = pb.ReportStartsRequest(process_id=self._process_id, service=self._service)
        starts, self._starts = self._starts, OrderedDict()
        request.starts.extend(starts.values())
        request.verdicts.extend(self._verdicts.popleft() for _ in range(len(self._verdicts)))
        is_alive = self._live and bool(self._open)
        self._due = self._monotonic() + ALIVE if is_alive else _FOREVER
        return request if request.starts or request.verdicts or is_alive else None

    def put_off(self, request: pb.ReportStartsRequest, seconds: float) -> None:
        """The collector was not there: verdicts wait for it, starts that may be over by then do not."""
        self.dropped += len(request.starts)
        self._verdicts.extendleft(reversed(request.verdicts))
        self._not_before = self._monotonic() + seconds
        self._due = self._not_before if request.verdicts else self._due

    def give_up(self, request: pb.ReportStartsRequest) -> None:
        """The collector does not want it: it is older than we are."""
        self.dropped += len(request.starts) + len(request.verdicts)

    def _hurry(self) -> None:
        if self._due > (due := self._monotonic() + LINGER):
            self._due = due
            self._wake()
