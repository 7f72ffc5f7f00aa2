"""The ports of the evaluation, to sessions, conversations, findings, the judge and the store."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.judge_jobs import JudgeJob, Referral
from agenteval_collector.model.news import News
from agenteval_collector.model.running_traces import RunningTrace, UnendedSpan
from agenteval_collector.model.sessions import Member, SessionRecord, SessionUpdate, StoredPlace
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.model.turn_summary import TurnSummary
from otel_agenteval.finding import Finding, Seen
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation, SubjectKind

Reader: TypeAlias = Callable[[AssembledTrace], Trace]
"""Reads what was assembled of a trace."""


class SessionAggregation(Protocol):
    """The sessions that go on, and the places of traces in them. A `place` is a trace's start time and id."""

    def previous(self, session_id: str, place: tuple[int, str]) -> list[TurnSummary]: ...

    def followers(
        self, session_id: str, places: Sequence[tuple[int, str]], trace: Member | None
    ) -> list[tuple[Member, list[TurnSummary]]]: ...

    def put(
        self,
        session_id: str,
        trace: Trace,
        member: Member,
        received_at: int,
        effort: Effort,
        seen: Seen,
        *,
        before: tuple[int, str] | None,
        says_more: bool,
    ) -> SessionRecord: ...

    def leave(self, session_id: str, trace_id: str) -> None: ...

    def found_unusual(self, session_id: str) -> None: ...

    def rescore(self, session_id: str, member: Member, evaluation: Evaluation) -> None: ...

    def judged(
        self, session_id: str, place: tuple[int, str], evaluations: Sequence[Evaluation]
    ) -> SessionUpdate | None: ...

    def reload(self, session_id: str) -> SessionUpdate | None: ...

    def updates(self) -> Sequence[SessionUpdate]: ...

    def forget_all(self) -> None: ...

    def keep(self, is_kept: Callable[[str], bool]) -> None: ...

    def over(self, *, closing: bool = False) -> list[str]: ...

    def end(self, session_id: str) -> None: ...

    def ending(self, session_id: str) -> bool: ...


class Placement(Protocol):
    """The session of a trace."""

    @property
    def session_id(self) -> str: ...

    def keep(self, commit: Commit) -> None:
        """Add what is to be kept for that to the commit with which the trace was looked for."""


class ConversationFinder(Protocol):
    """Finds the session of a trace, by its messages where the trace names none."""

    def place(self, trace: Trace, revision: int, commit: Commit) -> Placement:
        """Find it among the sessions of the store and of `commit`. Raises RetryableError."""
        ...


class FindingsIn(Protocol):
    """Finds everything in a trace but its loops."""

    def __call__(self, trace: Trace, *, session_id: str, is_first: bool, found_at: int) -> Sequence[Finding]: ...


class SeenIn(Protocol):
    """Says what could be looked for in a trace."""

    def __call__(self, trace: Trace, *, is_first: bool) -> Seen: ...


class LoopFinder(Protocol):
    """Finds the loops of complete traces."""

    def in_trace(self, trace: Trace, session_id: str, assembled: AssembledTrace) -> Sequence[Finding]: ...

    def in_answers(
        self, compared: Evaluation, previous: Sequence[TurnSummary], said: Sequence[TurnSummary]
    ) -> Sequence[Finding]: ...


class Efforts(Protocol):
    """Compares what sessions take with what their agents' sessions usually take."""

    def of(self, trace: Trace) -> Effort: ...

    def remember_efforts(self, efforts: Iterable[tuple[str, Effort]]) -> None: ...

    def unusual(
        self, trace: Trace, effort: Effort, *, agent: str | None, session_id: str, found_at: int
    ) -> Sequence[Finding]: ...


class Judging(Protocol):
    """Chooses the outcomes that are left to the judge, without asking it; `findings` are those of the trace."""

    def refer(self, trace: Trace, session_id: str, findings: Sequence[Finding]) -> Sequence[Referral]: ...

    def refer_session(self, session_id: str) -> Referral | None: ...


class EvaluationStore(Protocol):
    """The part of the store that the evaluation needs. Raises RetryableError."""

    def stored_place(self, trace_id: str) -> StoredPlace | None: ...

    def commit(self, commit: Commit) -> News: ...

    def finalize(self, session_ids: Sequence[str]) -> News: ...

    def efforts(self, limit: int) -> Sequence[tuple[str, Effort]]: ...

    def end_session(self, session_id: str) -> bool: ...

    def live_sessions(self) -> list[str]: ...

    def sampled_out(self, session_id: str, limit: int) -> list[list[Evaluation]]: ...

    def pending_jobs(
        self, *, before: int, after: str = "", limit: int = 64, subject: SubjectKind = SubjectKind.TRACE
    ) -> list[JudgeJob]: ...

    def without_goal(self, session_ids: Sequence[str]) -> list[SessionRecord]: ...

    def session_revision(self, session_id: str) -> int | None: ...

    def says_the_same(self, view: TraceView) -> bool: ...


class EarlierTraces(Protocol):
    """Has the traces that were evaluated before."""

    def trace(self, trace_id: str) -> AssembledTrace | None:
        """Put the newest revision of a trace together again; None where some of it is gone. Raises RetryableError."""


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


class OwnSessions(Protocol):
    """The sessions that this process evaluates: all, or those of some partitions. On the evaluation's thread."""

    @property
    def is_all(self) -> bool:
        """Whether no other process evaluates sessions."""
        ...

    def owns(self, session_id: str) -> bool:
        """Return whether this process evaluates the session."""
        ...

    def is_in(self, session_id: str, partitions: Collection[int]) -> bool:
        """Return whether the session is one of those partitions; where this process is alone, it always is."""
        ...

    def still_own(self, traces: Sequence[AssembledTrace]) -> Sequence[AssembledTrace]:
        """Return those of the traces that did not go to another process since they came."""
        ...

    def not_stored(self, traces: Sequence[AssembledTrace]) -> Sequence[AssembledTrace]:
        """Return those of the traces that the store does not have, each as a revision behind that of the store: a
        trace may come again, and two processes may count its revisions. Raises RetryableError."""
        ...

    def hands_on(self, trace: AssembledTrace, session_of: Callable[[], str]) -> bool:
        """Hand a trace to the process that evaluates its session; False where it is this one. Raises RetryableError."""
        ...

    def take(self, partitions: Collection[int]) -> None:
        """Take over the sessions of partitions. Raises RetryableError."""

    def give_up(self, partitions: Collection[int]) -> None:
        """Leave the sessions of partitions to others."""

    def superseded(self) -> None:
        """Take note that others had taken over before this process knew: what it still has is taken again."""


class TurnFinder(Protocol):
    """Finds the turns that traces go on with in their sessions, where they are sent the results of calls alone."""

    def joined(self, trace: Trace, session_id: str, commit: Commit) -> Trace: ...

    def behind(self, commit: Commit) -> Mapping[str, str]: ...


class OpenTraces(Protocol):
    """The traces of which spans have arrived; the assembler. Safe from any thread."""

    def newest(self, count: int) -> Sequence[AssembledTrace]: ...

    def peek(self, trace_id: str) -> AssembledTrace | None: ...


class ReportedTraces(Protocol):
    """The traces of which processes report open spans. Thread-safe."""

    def running(self) -> Sequence[RunningTrace]: ...

    def begun(self, trace_id: str) -> Trace | None: ...

    def of_trace(self, trace_id: str) -> Sequence[UnendedSpan]: ...

    def stopped(self, trace_id: str) -> str | None: ...
