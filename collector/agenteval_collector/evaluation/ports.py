"""The ports of the evaluation: to sessions, conversations, findings, the judge, the store and assembly."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.judge_jobs import JudgeJob, Referral
from agenteval_collector.model.news import News
from agenteval_collector.model.running_traces import RunningTrace, UnendedSpan
from agenteval_collector.model.sessions import Member, SessionState, SessionUpdate, StoredPlace
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.model.turn_summary import TurnSummary
from otel_agenteval.finding import Finding, Seen
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation, SubjectKind

Reader: TypeAlias = Callable[[AssembledTrace], Trace]
"""Reads an assembled trace."""


class SessionAggregation(Protocol):
    """The sessions that go on, and the places of traces in them.

    A `place` is the start of a trace, in nanoseconds since the Unix epoch, and its id.
    """

    def previous(self, session_id: str, place: tuple[int, str]) -> list[TurnSummary]:
        """Return the last turns of the session before `place`, oldest first."""

    def followers(
        self, session_id: str, places: Sequence[tuple[int, str]], trace: Member | None
    ) -> list[tuple[Member, list[TurnSummary]]]:
        """Return the traces whose windows reach back to one of `places`, each with the turns before it."""

    def put_trace(
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
    ) -> SessionState:
        """Add a trace to its session, or replace the revision of it that stands at `before`."""

    def leave(self, session_id: str, trace_id: str) -> None:
        """Note that a newer revision of the trace is in another session."""

    def found_unusual(self, session_id: str) -> None:
        """Note that the session takes more effort than usual."""

    def rescore(self, session_id: str, member: Member, evaluation: Evaluation) -> None:
        """Replace a signal of a member that `followers` returned."""

    def judged(
        self, session_id: str, place: tuple[int, str], evaluations: Sequence[Evaluation]
    ) -> SessionUpdate | None:
        """Take over judged outcomes of the trace at `place`; return the session if its scores rest on them."""

    def reload(self, session_id: str) -> SessionUpdate | None:
        """Read a session again after a trace has left it; None if it has no trace any more."""

    def updates(self) -> Sequence[SessionUpdate]:
        """Return the sessions that have changed since the last call."""

    def forget_all(self) -> None:
        """Forget all sessions in memory. Each is read from the store again when something of it comes."""

    def keep_only(self, is_kept: Callable[[str], bool]) -> None:
        """Forget what is in memory, and let sessions go for which `is_kept` returns False."""

    def over(self, *, closing: bool = False) -> list[str]:
        """Return the sessions that have become idle or have ended since the last call."""

    def end(self, session_id: str) -> None:
        """Note that the session was reported ended."""

    def ending(self, session_id: str) -> bool:
        """Return whether the session was reported ended just now."""


class Placement(Protocol):
    """The session of a trace."""

    @property
    def session_id(self) -> str: ...

    def add_to(self, commit: Commit) -> None:
        """Add the links and moves behind this placement to `commit`, which `place` was called with."""


class ConversationFinder(Protocol):
    """Finds the session of a trace. Uses its messages if the trace names no session."""

    def place(self, trace: Trace, revision: int, commit: Commit) -> Placement:
        """Find the session of `trace` among those of the store and of `commit`. Raises RetryableError."""
        ...


class FindingsIn(Protocol):
    """Makes the findings of a trace, except for its loops."""

    def __call__(self, trace: Trace, *, session_id: str, is_first: bool, found_at: int) -> Sequence[Finding]: ...


class SeenIn(Protocol):
    """Says how much of each sort of content of a trace was recorded."""

    def __call__(self, trace: Trace, *, is_first: bool) -> Seen: ...


class LoopFinder(Protocol):
    """Finds the loops in complete traces, and the answers that are repeated."""

    def in_trace(self, trace: Trace, session_id: str, assembled: AssembledTrace) -> Sequence[Finding]: ...

    def in_answers(
        self, compared: Evaluation, previous: Sequence[TurnSummary], said: Sequence[TurnSummary]
    ) -> Sequence[Finding]: ...


class Efforts(Protocol):
    """Compares the effort of a session with the usual effort of its agent's sessions."""

    def of(self, trace: Trace) -> Effort: ...

    def remember_efforts(self, efforts: Iterable[tuple[str, Effort]]) -> None:
        """Remember the efforts of sessions that are over, each with its agent, in this order."""

    def unusual(
        self, trace: Trace, effort: Effort, *, agent: str | None, session_id: str, found_at: int
    ) -> Sequence[Finding]: ...


class Judging(Protocol):
    """Chooses the outcomes that are left to the judge, without asking it. `findings` are those of the trace."""

    def refer(self, trace: Trace, session_id: str, findings: Sequence[Finding]) -> Sequence[Referral]: ...

    def refer_session(self, session_id: str) -> Referral | None: ...


class EvaluationStore(Protocol):
    """The part of the store that the evaluation needs. Each method may raise RetryableError."""

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

    def without_goal(self, session_ids: Sequence[str]) -> list[SessionState]: ...

    def session_revision(self, session_id: str) -> int | None: ...

    def says_the_same(self, view: TraceView) -> bool: ...


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
        """The number of jobs that there is room for now. It is 0 where there is no judge."""

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

    def hands_on(self, trace: AssembledTrace, session_of: Callable[[], str]) -> bool:
        """Hand a trace on to the process that evaluates its session.

        Returns False if that is this process. Raises RetryableError.
        """
        ...

    def take_partitions(self, partitions: Collection[int]) -> None:
        """Take over the sessions of partitions. Raises RetryableError."""

    def give_up_partitions(self, partitions: Collection[int]) -> None:
        """Leave the sessions of partitions to other processes."""

    def superseded(self) -> None:
        """Note that another process took over before this one knew. What this process still has is taken anew."""


class TurnFinder(Protocol):
    """Finds the turn that a trace continues, where a request brings nothing but the results of earlier calls."""

    def joined(self, trace: Trace, session_id: str, commit: Commit) -> Trace: ...

    def behind(self, commit: Commit) -> Mapping[str, str]: ...


class OpenTraces(Protocol):
    """The traces whose spans are arriving, in the assembler. Thread-safe."""

    def newest(self, count: int) -> Sequence[AssembledTrace]: ...

    def peek(self, trace_id: str) -> AssembledTrace | None: ...


class ReportedTraces(Protocol):
    """The traces whose open spans the agents' processes report. Thread-safe."""

    def running(self) -> Sequence[RunningTrace]: ...

    def begun(self, trace_id: str) -> Trace | None: ...

    def of_trace(self, trace_id: str) -> Sequence[UnendedSpan]: ...

    def stopped(self, trace_id: str) -> str | None: ...
