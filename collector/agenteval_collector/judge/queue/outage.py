"""The one state of the judge being away: judging pauses, and one trace after another tries whether it is back.

    answering --(a trace gets no answer)--> pause --(it is over)--> probe --(an answer)--> answering
                                              ^------(none, twice the pause)------'

A trace gets no answer where the client has given up on a request: timeout, connection error, overload, a wrong key. A
refusal is an answer.
"""

import logging
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from agenteval_collector.judge.ports import JudgeUnavailable
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import RetryableError

logger = logging.getLogger(__name__)

SHORTEST: Final = 0.5
"""Seconds of a pause, whatever the error says."""
FIRST: Final = 1.0
"""Seconds of the first pause, where the error names none."""
LONGEST: Final = 120.0
"""Seconds that a pause doubles up to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause of judging until `until` (monotonic), the `number`-th since the last answer; `since`: the first (ns)."""

    number: int
    since: int
    until: float
    error: JudgeUnavailable | RetryableError


class Outage:
    """Written by the judge's event loop alone, read by any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.pause: Pause | None = None

    def failed(self, error: JudgeUnavailable | RetryableError) -> bool:
        """Note that a trace got no answer, and pause. Return whether it is the first without one since an answer."""
        now, last = self._clock.monotonic(), self.pause
        number, since = (last.number, last.since) if last else (0, self._clock.now())
        if last is None or now >= last.until:
            # Whatever else fails during a pause belongs to it.
            number += 1
        # What the endpoint asks for is obeyed, also where it is less than the pauses have grown to.
        asked = min(FIRST * 2.0 ** (number - 1), LONGEST) if error.retry_after is None else error.retry_after
        until = max(last.until if last else now, now + max(asked, SHORTEST))
        self.pause = Pause(number=number, since=since, until=until, error=error)
        if last is None:
            logger.warning("judging pauses, traces wait for the judge: %s", error)
        return last is None

    def over(self) -> None:
        """Take note that the judge has answered."""
        if self.pause is not None:
            logger.info("judging goes on")
        self.pause = None

    @property
    def left(self) -> float:
        """Seconds until something may be tried."""
        pause = self.pause
        return max(pause.until - self._clock.monotonic(), 0.0) if pause else 0.0

    def described(self) -> str | None:
        """Describe the outage as it stands; None where there is none."""
        pause = self.pause
        if pause is None:
            return None
        if isinstance(pause.error, RetryableError):
            return f"judging pauses: {pause.error}"
        since = datetime.fromtimestamp(pause.since // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z")
        left = math.ceil(self.left)
        again = f"it is tried again in {left} s" if left else "it is being tried again"
        return f"the judge has not answered since {since}: {pause.error}; {again}"
