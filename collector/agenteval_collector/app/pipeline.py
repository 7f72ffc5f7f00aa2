"""A tenant's pipeline while it runs. `one_process.py` and `fleet.py` connect its stages."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from agenteval_collector.app.stages import AssemblyParts, EvaluationParts, Foundation
from agenteval_collector.emit.feed import MAX_VERDICTS, Feed
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.evaluation.sessions.past_sessions import PastSessions
from agenteval_collector.ingest.ingest import Ingest
from agenteval_collector.runtime.component import Component, health_of
from agenteval_collector.runtime.ports import Holder
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.serve.api.reports import Reports
from agenteval_collector.stores.retention import RetentionStage

ALL_STOPPED_WITHIN: Final = 8.0
"""Seconds for all components to finish what waits for them."""
REMEMBERED_SESSIONS: Final = 20_000
"""Newest sessions of earlier processes, with whose scores new ones are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Everything of one tenant behind the doors, connected. Nothing runs before `start`; `shutdown` stops the stages
    that take in before those that they hand on to. Two tenants' pipelines share no data."""

    base: Foundation
    feed: Feed
    past_sessions: PastSessions
    ingest: Ingest
    assembly: AssemblyParts
    evaluation: EvaluationParts
    retention: RetentionStage
    queries: Queries
    reports: Reports
    components: Sequence[Component]
    """The components that run in this process. One that hands on to another stands before it."""
    holders: Sequence[Holder]
    """The parts whose items take memory until they are worked off."""
    recover: Callable[[], None]
    """Does what must be done before any of them starts."""
    stop: Callable[[float], None]
    """Stops all of them by a deadline, in the order that loses nothing; safe before the start and twice."""

    @property
    def output(self) -> TelemetryOutput:
        """The instruments of this tenant."""
        return self.base.output

    def start(self) -> None:
        """Take up what the last process left, then run."""
        store = self.base.store
        self.recover()
        self.feed.remember(store.findings.newest(MAX_VERDICTS))
        self.past_sessions.remember(store.past_sessions(REMEMBERED_SESSIONS))
        # From the last stage to the first: what is handed on finds a stage that runs.
        for component in reversed(self.components):
            component.start()
        self.base.memory.watch(*self.holders)

    @property
    def health(self) -> str | None:
        """None while every stage can do its work, else why not."""
        return health_of(self.components)

    def shutdown(self) -> None:
        """Commit and score what is complete, push what waits; safe twice, within 15 s. The doors are closed before."""
        storage = self.base.storage
        if storage.closed:
            return
        self.stop(time.monotonic() + ALL_STOPPED_WITHIN)
        self.output.shutdown(3.0)
        storage.shutdown()
