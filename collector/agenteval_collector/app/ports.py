"""The ports of the composition root."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from agenteval_collector.model.running_traces import StartsReport
from otel_agenteval.model import ExpectedTool, RunIdentity
from otel_agenteval.outcome import Evaluation


class ExpectedTools(Protocol):
    """Ground truth of runs."""

    def expected_tools(self, run: RunIdentity | None) -> tuple[ExpectedTool, ...] | None:
        """Return the tools that the run should call; None if the truth does not name any."""


class JudgeCheck(Protocol):
    """The judge's endpoint. Raises InvalidRequest if there is no judge."""

    def require(self) -> None:
        """Check that there is a judge."""

    def trouble(self) -> str | None:
        """Return why the endpoint would not answer; None if it would."""


class StartsTaker(Protocol):
    """Hears which spans are open in a process."""

    def take_starts(self, report: StartsReport) -> None: ...


class SessionTaker(Protocol):
    """Hears what is reported of sessions, and what is to be judged after all."""

    def end_session(self, session_id: str, *, marked: bool) -> None:
        """Take the report that a session has ended; `marked`: the store knows it."""

    def judge_again(self, outcomes: Sequence[Sequence[Evaluation]]) -> Future[int]:
        """Take `outcomes`, by trace, to be judged after all. Returns how many had room, once committed."""
        ...
