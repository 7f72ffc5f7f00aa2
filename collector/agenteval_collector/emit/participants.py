"""Who is to hear of a session: the processes that take part in it."""

import logging
from collections.abc import Callable

from agenteval_collector.runtime.errors import RetryableError

logger = logging.getLogger(__name__)

ProcessesIn = Callable[[str], frozenset[str]]
"""The processes that have spans in a session, as far as our processor named them."""


class Participants:
    """Called with a session's id for its processes: those of its newest complete traces, which are `stored`, and those
    in its `running` ones. Thread-safe where these are."""

    def __init__(self, stored: ProcessesIn, *running: ProcessesIn) -> None:
        self._stored = stored
        self._running = running

    def __call__(self, session_id: str) -> frozenset[str]:
        found = frozenset[str]().union(*(processes_in(session_id) for processes_in in self._running))
        try:
            return found | self._stored(session_id)
        except RetryableError as error:
            # Whoever is known without the store hears of it all the same.
            logger.warning("not all processes of session %.200r are known now: %s", session_id, error)
            return found
