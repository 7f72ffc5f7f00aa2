"""The processes that are to hear of a session, as they take part in it."""

import logging

from agenteval_collector.emit.ports import ProcessesIn
from agenteval_collector.runtime.errors import RetryableError

logger = logging.getLogger(__name__)


class Participants:
    """The processes of a session's newest complete traces, which are `stored`, and of its `running` ones."""

    def __init__(self, stored: ProcessesIn, *running: ProcessesIn) -> None:
        self._stored = stored
        self._running = running

    def processes_in(self, session_id: str) -> frozenset[str]:
        """Return the processes in the session; without the stored ones where the store refuses. Thread-safe."""
        found = frozenset[str]().union(*(running.processes_in(session_id) for running in self._running))
        try:
            return found | self._stored.processes_in(session_id)
        except RetryableError as error:
            # Whoever is known without the store hears of it all the same.
            logger.warning("not all processes of session %.200r are known now: %s", session_id, error)
            return found
