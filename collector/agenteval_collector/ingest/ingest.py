"""Take requests from gRPC and HTTP: check them, log them with the name of their key, and acknowledge them."""

from collections.abc import Iterable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain

from agenteval_collector.ingest.evaluation_results import read_results
from agenteval_collector.ingest.event_spans import Turns, with_event_spans
from agenteval_collector.ingest.otlp_json import parse_json
from agenteval_collector.ingest.ports import Admission, Labels, RequestAppender
from agenteval_collector.ingest.quotas import Quotas
from agenteval_collector.ingest.redacting import RequestRedaction
from agenteval_collector.ingest.rejections import RejectionLog
from agenteval_collector.ingest.request_traces import traces_of
from agenteval_collector.ingest.validity import Checked, Limits, check
from agenteval_collector.model.callers import Caller, Scope
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.runtime.errors import CollectorError, Unavailable
from agenteval_collector.runtime.memory import MemoryGuard
from otel_agenteval.proto.v1.frame_pb2 import Frame

COMMIT_TIMEOUT = 10.0
"""Seconds to wait for the disk. After that the sender is told to try again."""
WORK = 3
"""Bytes of memory that each byte of a request takes while it is checked and written, beside the request."""
JSON_WORK = 9
"""The same in JSON."""


@dataclass(frozen=True, slots=True)
class Ingest:
    """Takes requests: checks them, has them committed, and only then returns.

    It takes nothing while the stage behind the log has no room.
    """

    log: RequestAppender
    admission: Admission
    labels: Labels
    limits: Limits
    telemetry: Telemetry
    memory: MemoryGuard
    rejections: RejectionLog
    quotas: Quotas
    redaction: RequestRedaction | None = None
    """Replaces texts that must not be kept; None: none are replaced."""
    turns: Turns = field(default_factory=Turns)
    """The last turns of coding agents that tell of their work in log records."""

    def take_request(self, signal: Signal, body: bytes, caller: Caller) -> Checked:
        """Take a request of a caller, and return how much of it was kept. Raises CollectorError if nothing was."""
        self._admit(caller)
        with self.memory.room(WORK * len(body)):
            return self._take(signal, body, Checked(), caller)

    def take_json(self, signal: Signal, text: bytes, caller: Caller) -> Checked:
        """Take a request in OTLP/JSON as `take_request` does."""
        self._admit(caller)
        checked = Checked()
        with self.memory.room(JSON_WORK * len(text)):
            return self._take(signal, parse_json(signal, text, checked), checked, caller)

    def _admit(self, caller: Caller) -> None:
        caller.require(Scope.WRITE)
        self.quotas.admit(caller)
        self.admission.admit()

    def refused(self, error: CollectorError) -> None:
        """Count a request that is answered with `error`."""
        self.telemetry.count(Counted.REFUSED, which=type(error).__name__)

    def _take(self, signal: Signal, body: bytes, checked: Checked, caller: Caller) -> Checked:
        check(signal, body, self.limits, checked)
        counted = checked.bodies if self.quotas.counts_traces and signal is Signal.TRACES else ()
        traces = {trace_id for kept in counted for trace_id in traces_of(signal, kept)}
        self.quotas.charge(caller, checked.accepted + checked.rejected, len(body), traces)
        self._keep(signal, checked.bodies, caller)
        for what, number in (
            (Counted.RECEIVED, checked.accepted),
            (Counted.REJECTED, checked.rejected),
            (Counted.OWN_SCOPE, checked.own),
        ):
            if number:
                self.telemetry.count(what, number)
        if checked.rejected:
            self.rejections.note(signal, checked)
        return checked

    def _keep(self, signal: Signal, bodies: Iterable[bytes], caller: Caller) -> None:
        """Keep the results of other evaluators as labels, and the rest in the log. A repeated request does no harm."""
        requests = [
            request
            for body in self._without_results(signal, bodies, caller)
            for request in with_event_spans(signal, body, self.turns)
        ]
        # Behind the request, where it counts whatever the sender has written there.
        stamp = sender_stamp(caller.name)
        offsets = [self.log.append(kind, body + stamp) for kind, body in requests]
        try:
            for offset in chain.from_iterable(offsets):
                offset.result(COMMIT_TIMEOUT)
        except FutureTimeout as error:
            # It may still be committed. The assembly recognises a repeated request by its span ids.
            raise Unavailable(f"the disk did not answer within {COMMIT_TIMEOUT:.0f} s") from error

    def _without_results(self, signal: Signal, bodies: Iterable[bytes], caller: Caller) -> Iterator[bytes]:
        for body in bodies:
            results = read_results(signal, self.redaction.redact(signal, body) if self.redaction else body)
            if results.labels:
                self.labels.label(*(replace(label, sender=caller.speaks_as) for label in results.labels))
            for reason, count in results.left_out.items():
                self.telemetry.count(Counted.LEFT_OUT, count, reason)
            if results.body is not None:
                yield results.body


@lru_cache(maxsize=1024)
def sender_stamp(name: str) -> bytes:
    """Return the bytes that, behind a request, say with which key it came. Anonymous callers are a sender, too."""
    return Frame(sender=name).SerializeToString()
