"""The ports of the API: where reports go, and where documents come from."""

from collections.abc import Sequence
from typing import Protocol

from agenteval_collector.model.deletions import DeletionFilter, Receipt
from agenteval_collector.model.judge_jobs import Rejudging
from agenteval_collector.model.labels import Label
from agenteval_collector.model.running_traces import RunningTrace, StartsReport, UnendedSpan
from agenteval_collector.model.runs import RunReport
from agenteval_collector.model.trace_view import TraceView


class Reports(Protocol):
    """Takes reports from outside beside telemetry. A report is durable when the call returns. Raises RetryableError."""

    def report_run(self, report: RunReport) -> None: ...

    def end_session(self, session_id: str) -> bool:
        """Mark the session as ended. Returns whether it is known. The mark of an unknown session is not durable: it is
        kept for traces on the way."""

    def label(self, label: Label) -> None:
        """Keep a label; it replaces an earlier one of the same author."""

    def judge_again(self, trace_ids: Sequence[str], session_ids: Sequence[str], failed_since: int) -> Rejudging:
        """Have the judge score these traces and sessions if it has not. Without any, it scores all that failed or
        had no budget since that time (ns).

        Raises InvalidRequest if there is no judge.
        """

    def resolve_problem(self, problem_id: str, by: str | None) -> bool:
        """Mark a problem as resolved. Returns whether it is known."""

    def mute_problem(self, problem_id: str, until: int | None, by: str | None) -> bool:
        """Mute a problem until that time (ns); None ends the muting. Returns whether the problem is known."""

    def check_judge(self) -> str | None:
        """Return why the judge's endpoint would not answer; None if it would. Costs nothing.

        Raises InvalidRequest if there is no judge.
        """

    def delete(self, wanted: DeletionFilter, by: str | None) -> Receipt:
        """Request a deletion. The request is durable when this returns; the deletion may go on after that."""

    def receipt(self, deletion_id: str) -> Receipt:
        """Return what a deletion has removed so far. Waits up to a few seconds for its end. Raises NotFound."""

    def starts(self, report: StartsReport) -> None:
        """Take spans that have started. Not durable, except for the findings."""


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
