"""Take requests from gRPC and HTTP: check them, write them to the log, and acknowledge them."""

from collections.abc import Iterable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from itertools import chain

from agenteval_collector.ingest.evaluation_results import read_results
from agenteval_collector.ingest.event_spans import Turns, with_event_spans
from agenteval_collector.ingest.otlp_json import parse_json
from agenteval_collector.ingest.ports import Admission, Labels, RequestAppender
from agenteval_collector.ingest.redacting import RequestRedaction
from agenteval_collector.ingest.rejections import RejectionLog
from agenteval_collector.ingest.validity import Checked, Limits, check
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.runtime.errors import CollectorError, Unavailable
from agenteval_collector.runtime.memory import MemoryGuard

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
    redaction: RequestRedaction | None = None
    """Replaces texts that must not be kept; None: none are replaced."""
    turns: Turns = field(default_factory=Turns)
    """The last turns of coding agents that tell of their work in log records."""

    def take_request(self, signal: Signal, body: bytes) -> Checked:
        """Take a request, and return how much of it was kept. Raises CollectorError if nothing was."""
        self.admission.admit()
        with self.memory.room(WORK * len(body)):
            return self._take(signal, body, Checked())

    def take_json(self, signal: Signal, text: bytes) -> Checked:
        """Take a request in OTLP/JSON as `take_request` does."""
        self.admission.admit()
        checked = Checked()
        with self.memory.room(JSON_WORK * len(text)):
            return self._take(signal, parse_json(signal, text, checked), checked)

    def refused(self, error: CollectorError) -> None:
        """Count a request that is answered with `error`."""
        self.telemetry.count(Counted.REFUSED, which=type(error).__name__)

    def _take(self, signal: Signal, body: bytes, checked: Checked) -> Checked:
        check(signal, body, self.limits, checked)
        self._keep(signal, checked.bodies)
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

    def _keep(self, signal: Signal, bodies: Iterable[bytes]) -> None:
        """Keep the results of other evaluators as labels, and the rest in the log. A repeated request does no harm."""
        requests = [
            request
            for body in self._without_results(signal, bodies)
            for request in with_event_spans(signal, body, self.turns)
        ]
        offsets = [self.log.append(kind, body) for kind, body in requests]
        try:
            for offset in chain.from_iterable(offsets):
                offset.result(COMMIT_TIMEOUT)
        except FutureTimeout as error:
            # It may still be committed. The assembly recognises a repeated request by its span ids.
            raise Unavailable(f"the disk did not answer within {COMMIT_TIMEOUT:.0f} s") from error

    def _without_results(self, signal: Signal, bodies: Iterable[bytes]) -> Iterator[bytes]:
        for body in bodies:
            results = read_results(signal, self.redaction.redact(signal, body) if self.redaction else body)
            if results.labels:
                self.labels.label(*results.labels)
            for reason, count in results.left_out.items():
                self.telemetry.count(Counted.LEFT_OUT, count, reason)
            if results.body is not None:
                yield results.body
