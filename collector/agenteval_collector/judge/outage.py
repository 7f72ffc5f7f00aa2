"""Times at which the judge is away, or what judging needs beside it."""

import logging
import math
from dataclasses import dataclass
from datetime import UTC, datetime

from agenteval_collector.judge.client.port import JudgeUnavailable, Trouble

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Outage:
    """How often in a row the judge was away, and until when nothing is tried."""

    pauses: int = 0
    until: float = 0.0
    error: JudgeUnavailable | None = None

    def pause(self, now: float, until: float, error: JudgeUnavailable) -> None:
        """The judge is away. What comes during a pause belongs to it."""
        if now >= self.until:
            self.pauses += 1
            if self.pauses == 1:
                logger.warning("judging pauses, traces wait for the judge: %s", error)
        self.until = max(self.until, until)
        self.error = error

    def over(self) -> None:
        """The judge has answered."""
        if self.pauses:
            logger.info("judging goes on")
        self.pauses, self.until, self.error = 0, 0.0, None


def described(trouble: Trouble, now: int) -> str:
    """The trouble in words, as it stands at `now` (ns)."""
    since = datetime.fromtimestamp(trouble.since // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z")
    rest = 0 if trouble.until is None else math.ceil((trouble.until - now) / 1e9)
    again = f"it is tried again in {rest} s" if rest > 0 else "it is being tried again"
    return f"the judge has not answered since {since}: {trouble.message}; {again}"
