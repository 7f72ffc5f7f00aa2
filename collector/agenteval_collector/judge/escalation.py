"""Choose sessions for the judge because of what was found in them, at most a share of all sessions."""

from typing import Final

from agenteval_collector.model.counters import Counted, Telemetry
from otel_agenteval.finding import Severity

PLACES: Final = 10
"""Places that are kept at most: so many sessions may be escalated one after the other, after a quiet time."""
KEPT_FOR_ERRORS: Final = 5
"""Places that a session without an error does not get, unless every session gets one."""


class Escalation:
    """Gives places to sessions with findings. Belongs to the evaluation's thread.

    Each session that is seen brings `share` of a place, and an escalated one takes a whole one: at no time are more
    than `share` of the sessions escalated. It starts without places, so this holds over a restart too.
    """

    def __init__(self, share: float, telemetry: Telemetry) -> None:
        self.share = share
        self._telemetry = telemetry
        self._places = 0.0

    def saw_session(self) -> None:
        """Note a session that was not seen before."""
        self._places = min(self._places + self.share, PLACES)

    def take(self, worst: Severity, *, counts: bool) -> bool:
        """Take a place for a session, by the worst of its findings. Counts that there was one, and that there was none
        where the session `counts`, as it was not refused before."""
        kept = 0.0 if worst is Severity.ERROR or self.share >= 1.0 else KEPT_FOR_ERRORS
        has_place = self._places - kept >= 1.0
        if has_place:
            self._places -= 1.0
        if has_place or counts:
            self._telemetry.count(Counted.ESCALATED if has_place else Counted.NOT_ESCALATED)
        return has_place
