"""The ports of the composition root: what it asks of those who build a collector, and of the collector's parts."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from agenteval_collector.runtime.component import Healthy
from otel_agenteval.model import ExpectedTool, RunIdentity
from otel_agenteval.outcome import Evaluation


class ExpectedTools(Protocol):
    """Ground truth of runs."""

    def expected_tools(self, run: RunIdentity | None) -> tuple[ExpectedTool, ...] | None:
        """Return the tools that the run should call; None where nothing is said of it."""


class Part(Healthy, Protocol):
    """A stage of a pipeline."""

    name: str

    @property
    def waiting(self) -> int:
        """The number of items that wait for it; an instant's value."""
        ...

    def start(self) -> None: ...

    def shutdown(self, timeout: float) -> None:
        """Finish what waits, within `timeout` seconds. Safe before start and twice."""


class LogStage(Part, Protocol):
    """The stage that keeps requests."""

    @property
    def held(self) -> int:
        """Bytes of memory that waiting requests take. From any thread."""
        ...


class SessionTaker(Protocol):
    """Hears what is reported of sessions, and what is to be judged after all."""

    def end_session(self, session_id: str, *, marked: bool) -> None:
        """Take the report that a session has ended; `marked`: the store knows it."""

    def judge_again(self, found: Sequence[Sequence[Evaluation]]) -> Future[int]:
        """Take outcomes by trace that are to be judged after all. Returns how many had room, once committed."""
        ...
