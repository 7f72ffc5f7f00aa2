"""The ports around the evaluation: the store, the sessions, and whoever it hands on to."""

from collections.abc import Sequence
from typing import Protocol

from agenteval_collector.model.assembled import AssembledTrace
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.judging import JudgeJob
from agenteval_collector.model.news import News
from agenteval_collector.model.sessions import SessionUpdate
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation


class EvaluationStore(Protocol):
    """The part of the store that the stage needs. Raises RetryableError."""

    def commit(self, commit: Commit) -> News: ...

    def finalize(self, session_ids: Sequence[str]) -> News: ...

    def efforts(self, limit: int) -> Sequence[tuple[str, Effort]]: ...

    def end_session(self, session_id: str) -> bool: ...

    def live_sessions(self) -> list[str]: ...

    def sampled_out(self, session_id: str, limit: int) -> list[list[Evaluation]]: ...

    def pending_jobs(self, *, before: int, after: str = "", limit: int = 64) -> list[JudgeJob]: ...


class SessionLifetimes(Protocol):
    """The operations on sessions that the stage needs."""

    def reload(self, session_id: str) -> SessionUpdate | None: ...

    def updates(self) -> Sequence[SessionUpdate]: ...

    def forget_all(self) -> None: ...

    def over(self, *, closing: bool = False) -> list[str]: ...

    def end(self, session_id: str) -> None: ...

    def ending(self, session_id: str) -> bool: ...


class Reader(Protocol):
    """Reads what was assembled of a trace."""

    def __call__(self, assembled: AssembledTrace) -> Trace: ...


class EarlierTraces(Protocol):
    """Has the traces that were evaluated before."""

    def trace(self, trace_id: str) -> AssembledTrace | None:
        """Put the newest revision of a trace together again; None where it is unknown or some of it is gone. Raises
        RetryableError."""


class JobTaker(Protocol):
    """Takes traces that wait for the judge. Must not block."""

    @property
    def room(self) -> int:
        """The number of jobs that have a place now; 0 where there is no judge."""

    def take_job(self, job: JudgeJob) -> None:
        """Take a trace whose pending outcomes are committed."""


class ScoredTaker(Protocol):
    """Takes note of what is stored, so that nothing of it is read from the log again. Must not block."""

    def take_scored(self, trace_id: str, revision: int) -> None: ...
