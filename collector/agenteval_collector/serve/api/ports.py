"""The ports of the API: where reports go, and where documents come from."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from agenteval_collector.model.running_traces import RunningTrace, StartsReport, UnendedSpan
from agenteval_collector.model.trace_view import TraceView
from otel_agenteval.outcome import Evaluation


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

    def end_session(self, session_id: str, *, marked: bool, sender: str = "") -> None:
        """Take the report that a session has ended; `marked`: the store knows it. With a `sender`, it ends only with
        a trace that has spans of this sender."""

    def judge_again(self, outcomes: Sequence[Sequence[Evaluation]]) -> Future[int]:
        """Take `outcomes`, by trace, to be judged after all. Returns how many had room, once committed."""
        ...


class RunningTraces(Protocol):
    """The traces that are not complete. Thread-safe."""

    def trace(self, trace_id: str) -> TraceView | None:
        """Return a view of a running trace; None if no trace of this id is known to run."""

    def traces(self) -> Sequence[RunningTrace]:
        """Return all running traces, or the newest if there are many."""

    def open_spans(self, trace_id: str) -> tuple[Sequence[UnendedSpan], str | None]:
        """Return the open spans of a trace, and why they will not end; None if they may."""


class JudgeState(Protocol):
    """The state of the judge. Thread-safe."""

    @property
    def trouble(self) -> str | None:
        """Why traces wait for the judge; None if nothing is wrong."""

    @property
    def fault(self) -> str | None:
        """Say why the judge gives no scores: its `trouble`, or malformed replies. None if nothing is wrong."""
