"""A circuit breaker: an endpoint that is down is left alone, and asked by one request at a time whether it is back.

    closed --(FAILURES in a row)--> open --(the rest is over)--> one probe --(success)--> closed
                                      ^------------------------------(failure, twice the rest)---'

A failure is a request without an answer: timeout, connection error, overload, a wrong key. A refusal is an answer.
"""

from dataclasses import dataclass

from agenteval_collector.judge.client.port import Trouble
from agenteval_collector.runtime.clock import Clock

FAILURES = 5
"""Failures in a row that open the circuit, each of another question: one alone must not open it for all."""
FIRST_REST = 5.0
"""Seconds until the first probe."""
LONGEST_REST = 60.0
"""Seconds that the rest doubles up to; where the endpoint names a time itself, that one counts."""


class CircuitOpen(Exception):
    """No request may leave; the next one may try in `retry_after` seconds. `probing`: one is under way, and what comes
    of it closes the circuit or opens it again. The message repeats what the last failure was."""

    def __init__(self, cause: str, failures: int, retry_after: float, *, probing: bool) -> None:
        super().__init__(f"{cause}; left alone for {retry_after:.0f} s after {failures} failed requests")
        self.retry_after = retry_after
        self.probing = probing


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave for one request. Its result counts only until the circuit next opens."""

    period: int


class Circuit:
    """Of one endpoint. Not thread-safe but for `trouble`: it belongs to one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._period = 0
        self._failures = 0
        self._trouble: Trouble | None = None
        self._rest = FIRST_REST
        self._probe_at: float | None = None
        self._probing = False

    @property
    def trouble(self) -> Trouble | None:
        """The last failure, and the time of the first one after the last answer; None since an answer."""
        return self._trouble

    def admit(self) -> Permit:
        """A permit, to be handed to one of succeeded, failed and abandoned. Raises CircuitOpen."""
        if self._probe_at is not None:
            remaining = self._probe_at - self._clock.monotonic()
            if self._probing or remaining > 0:
                rest = max(remaining, FIRST_REST) if self._probing else remaining
                cause = self._trouble.message if self._trouble else ""
                raise CircuitOpen(cause, self._failures, rest, probing=self._probing)
            self._probing = True
        return Permit(self._period)

    def succeeded(self, permit: Permit) -> None:
        """The request was answered."""
        if permit.period != self._period:
            return
        self._failures = 0
        self._trouble = None
        self._rest = FIRST_REST
        self._probe_at = None
        self._probing = False

    def failed(self, permit: Permit, cause: str, retry_after: float | None = None, *, first: bool = True) -> None:
        """The request was not answered, `cause` says why; `retry_after` is what the endpoint asked for, in seconds.

        `first`: no earlier request for the same question failed. Only these are counted.
        """
        if permit.period != self._period:
            return
        self._failures += first
        if self._failures < FAILURES and not self._probing:
            self._note(cause, retry_after)
            return
        self._period += 1
        rest = self._rest if retry_after is None else retry_after
        self._note(cause, rest)
        self._probe_at = self._clock.monotonic() + rest
        self._probing = False
        self._rest = min(self._rest * 2, LONGEST_REST)

    def abandoned(self, permit: Permit) -> None:
        """The request never left, or nobody waited for its result: it says nothing about the endpoint.

        Does nothing after succeeded or failed.
        """
        if permit.period == self._period:
            self._probing = False

    def _note(self, cause: str, rest: float | None) -> None:
        now = self._clock.now()
        since = self._trouble.since if self._trouble else now
        self._trouble = Trouble(cause, since, None if rest is None else now + round(rest * 1e9))
