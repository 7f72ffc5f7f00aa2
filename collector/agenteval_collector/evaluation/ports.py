"""The ports of the evaluation: to the judge, to the assembly, and to the sessions of other processes."""

from collections.abc import Collection, Sequence
from typing import Protocol

from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.judge_jobs import JudgeJob


class EarlierTraces(Protocol):
    """Gives back traces that were evaluated before."""

    def trace(self, trace_id: str) -> AssembledTrace | None:
        """Return the newest revision of a trace, assembled again from the log.

        None if some of its telemetry is gone. Raises RetryableError.
        """


class JobTaker(Protocol):
    """Takes jobs for the judge. Must not block."""

    @property
    def room(self) -> int:
        """The number of jobs that there is room for now. It is 0 if there is no judge."""

    def take_job(self, job: JudgeJob) -> None:
        """Take a job whose pending outcomes are committed."""


class ScoredTaker(Protocol):
    """Takes note of the traces that are stored, so that they are not read from the log again. Must not block."""

    def take_scored(self, trace_id: str, revision: int) -> None: ...


class OwnSessions(Protocol):
    """The sessions that this process evaluates: all sessions, or those of some partitions.

    Used on the evaluation's thread only.
    """

    @property
    def is_all(self) -> bool:
        """True if no other process evaluates sessions."""
        ...

    def owns(self, session_id: str) -> bool:
        """Return whether this process evaluates the session."""
        ...

    def is_in(self, session_id: str, partitions: Collection[int]) -> bool:
        """Return whether the session is in one of `partitions`. Always true if this process is alone."""
        ...

    def still_own(self, traces: Sequence[AssembledTrace]) -> Sequence[AssembledTrace]:
        """Return the traces that no other process has taken over since they came."""
        ...

    def not_stored(self, traces: Sequence[AssembledTrace]) -> Sequence[AssembledTrace]:
        """Return the traces that the store does not have, because a trace may come again.

        Each gets a revision above that of the store, because two processes may count its revisions. Raises
        RetryableError.
        """
        ...

    def hands_on(self, trace: AssembledTrace, session_id: str) -> bool:
        """Hand a trace of this session on to the process that evaluates it.

        Returns False if that is this process. Raises RetryableError.
        """
        ...

    def take_partitions(self, partitions: Collection[int]) -> None:
        """Take over the sessions of partitions. Raises RetryableError."""

    def give_up_partitions(self, partitions: Collection[int]) -> None:
        """Leave the sessions of partitions to other processes."""

    def superseded(self) -> None:
        """Note that another process took over before this one knew. What this process still has is taken anew."""


class EverySession:
    """The sessions of a process that evaluates all of them. No other process takes any."""

    is_all = True

    def owns(self, session_id: str) -> bool:
        return True

    def is_in(self, session_id: str, partitions: Collection[int]) -> bool:
        return True

    def still_own(self, traces: Sequence[AssembledTrace]) -> Sequence[AssembledTrace]:
        return traces

    def not_stored(self, traces: Sequence[AssembledTrace]) -> Sequence[AssembledTrace]:
        return traces

    def hands_on(self, trace: AssembledTrace, session_id: str) -> bool:
        return False

    def take_partitions(self, partitions: Collection[int]) -> None:
        """Do nothing: this process has all sessions already."""

    def give_up_partitions(self, partitions: Collection[int]) -> None:
        """Do nothing: this process keeps all sessions."""

    def superseded(self) -> None:
        """Do nothing: no other process can take over."""
