"""Keep the state of an outage of the judge.

During an outage judging pauses. After each pause, a single trace tries whether the judge is back.

    answering --(a trace gets no answer)--> pause --(it is over)--> probe --(an answer)--> answering.
                                              ^------(none, twice the pause)------'

A trace gets no answer if the client has given up on a request: timeout, connection error, overload, a wrong key. A
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
"""Seconds that a pause takes at least, whatever the error says."""
FIRST: Final = 1.0
"""Seconds of the first pause, if the error names no time."""
LONGEST: Final = 120.0
"""Seconds up to which pauses double."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause of judging until `until` (monotonic). It is the `number`-th since the last answer.

    `since` is when the first of these pauses began (ns).
    """

    number: int
    since: int
    until: float
    error: JudgeUnavailable | RetryableError


class Outage:
    """The state of the judge's outage. Only the judge's event loop writes it; any thread may read it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.pause: Pause | None = None

    def note_failure(self, error: JudgeUnavailable | RetryableError) -> bool:
        """Note that a trace got no answer, and pause. Return True for the first one since the last answer."""
        now, last = self._clock.monotonic(), self.pause
        number, since = (last.number, last.since) if last else (0, self._clock.now())
        if last is None or now >= last.until:
            # Requests that were under way may fail during a pause. They belong to it and do not double it.
            number += 1
        # The time that the endpoint asks for is obeyed, even if it is shorter than the pauses have grown to.
        seconds = min(FIRST * 2.0 ** (number - 1), LONGEST) if error.retry_after is None else error.retry_after
        until = max(last.until if last else now, now + max(seconds, SHORTEST))
        self.pause = Pause(number=number, since=since, until=until, error=error)
        if last is None:
            logger.warning("judging pauses, traces wait for the judge: %s", error)
        return last is None

    def note_answer(self) -> None:
        """Note that the judge has answered."""
        if self.pause is not None:
            logger.info("judging goes on")
        self.pause = None

    @property
    def left(self) -> float:
        """Seconds until something may be tried."""
        pause = self.pause
        return max(pause.until - self._clock.monotonic(), 0.0) if pause else 0.0

    def described(self) -> str | None:
        """Describe the outage as it stands. Return None if there is none."""
        pause = self.pause
        if pause is None:
            return None
        if isinstance(pause.error, RetryableError):
            return f"judging pauses: {pause.error}"
        since = datetime.fromtimestamp(pause.since // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z")
        seconds = math.ceil(self.left)
        again = f"it is tried again in {seconds} s" if seconds else "it is being tried again"
        return f"the judge has not answered since {since}: {pause.error}; {again}"
