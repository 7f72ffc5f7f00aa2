"""Admission of requests: from bytes to an acknowledgement, the same for gRPC and HTTP."""

from concurrent.futures import TimeoutError as FutureTimeout

from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.telemetry import Signal
from agenteval_collector.receiver.ports import Admission, Labels, Log
from agenteval_collector.receiver.results import read_results
from agenteval_collector.receiver.validity import Checked, Limits, check
from agenteval_collector.runtime.errors import CollectorError, Unavailable

COMMIT_TIMEOUT = 10.0
"""Seconds to wait for the disk. After that the sender is told to try again."""


class Ingest:
    """Takes requests: checks them, has them committed, and only then returns.

    Nothing is taken while what comes behind the log has no room.
    """

    def __init__(self, log: Log, admission: Admission, labels: Labels, limits: Limits, telemetry: Telemetry) -> None:
        self.limits = limits
        self._log = log
        self._labels = labels
        self._admission = admission
        self._telemetry = telemetry

    def take(self, signal: Signal, body: bytes) -> Checked:
        """Take a request, and return what became of it. Raises CollectorError where nothing of it was kept."""
        self._admission.admit()
        checked = check(signal, body, self.limits)
        if checked.body is not None:
            self._keep(signal, checked.body)
            self._telemetry.count(Counted.RECEIVED, checked.accepted)
        if checked.rejected:
            self._telemetry.count(Counted.REJECTED, checked.rejected)
        if checked.own:
            self._telemetry.count(Counted.OWN_SCOPE, checked.own)
        return checked

    def refused(self, error: CollectorError) -> None:
        """Count a request that is answered with `error`."""
        self._telemetry.count(Counted.REFUSED, which=type(error).__name__)

    def _keep(self, signal: Signal, body: bytes) -> None:
        """Keep the results of other evaluators as labels, and the rest in the log. Both may be done again."""
        results = read_results(signal, body)
        if results.labels:
            self._labels.label(*results.labels)
        for reason, count in results.left_out.items():
            self._telemetry.count(Counted.LEFT_OUT, count, reason)
        if results.body is not None:
            self._commit(signal, results.body)

    def _commit(self, signal: Signal, body: bytes) -> None:
        try:
            self._log.append(signal, body).result(COMMIT_TIMEOUT)
        except FutureTimeout as error:
            # It may still be committed; a repeated request is recognised by its span ids.
            raise Unavailable(f"the disk did not answer within {COMMIT_TIMEOUT:.0f} s") from error
