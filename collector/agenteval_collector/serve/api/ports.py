"""The ports of the API: where reports go, and where documents come from."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from agenteval_collector.figures.ports import JudgedSnapshot
from agenteval_collector.figures.problem import Problem, ProblemCount, ProblemFilter
from agenteval_collector.model.agents import AgentHistory, SeenAgent
from agenteval_collector.model.cursors import Page
from agenteval_collector.model.deletions import DeletionFilter, Receipt
from agenteval_collector.model.judge_jobs import JudgeExchange, Rejudging
from agenteval_collector.model.labelled_scores import LabelledEvaluator
from agenteval_collector.model.labels import Label, LabelSource
from agenteval_collector.model.running_traces import RunningTrace, StartsReport, UnendedSpan
from agenteval_collector.model.runs import RunReport
from agenteval_collector.model.session_filter import SessionFilter, TraceFilter
from agenteval_collector.model.sessions import AttentionRow, SessionEnding, SessionState
from agenteval_collector.model.shown_findings import MAX_SHOWN, ShownFindings
from agenteval_collector.model.trace_view import TraceView
from otel_agenteval.finding import Finding
from otel_agenteval.outcome import Evaluation, SubjectKind


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


class StoreSnapshot(JudgedSnapshot, Protocol):
    """The stored data as of one moment."""

    def agents(self, cursor: str | None, limit: int) -> Page[SeenAgent]:
        """Return the agents, newest telemetry first. Raises InvalidRequest for a foreign cursor."""

    def agent(self, agent: str) -> SeenAgent | None: ...

    def agent_history(self, agent: str, since: int, step: int) -> AgentHistory:
        """Return the figures of an agent since that hour (since the Unix epoch), with a point every `step` hours."""

    def traces(self, trace_ids: Collection[str]) -> dict[str, TraceView]: ...

    def newest_traces(self, limit: int) -> list[tuple[int, TraceView]]:
        """Return the newest traces, newest first, each with the time (ns) at which it was scored."""

    def first_finding(self, trace_id: str) -> Finding | None: ...

    def found_in_traces(self, trace_ids: Collection[str]) -> dict[str, ShownFindings]: ...

    def found_in_sessions(
        self, running: Mapping[str, Collection[str]], limit: int = MAX_SHOWN
    ) -> dict[str, ShownFindings]:
        """Return the findings of sessions, at most `limit` of each; `running` has the ids of their running traces."""

    def evaluations(self, subject: SubjectKind, subject_ids: Sequence[str]) -> dict[str, list[Evaluation]]: ...

    def scores(self, session_id: str, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return, by name, the scores of a session's traces that have one."""

    def trace_labels(self, trace_ids: Collection[str]) -> dict[str, list[Label]]: ...

    def session_labels(self, session_id: str) -> list[Label]: ...

    def labels(self, name: str | None, source: LabelSource | None, cursor: str | None, limit: int) -> Page[Label]: ...

    def labelled(self, name: str | None) -> list[LabelledEvaluator]: ...

    def problems(self, wanted: ProblemFilter, *, now: int, limit: int, cursor: str | None) -> Page[Problem]: ...

    def problem(self, problem_id: str, now: int) -> Problem | None: ...

    def problem_counts(self, now: int) -> list[ProblemCount]: ...

    def exchanges(self, subject: SubjectKind, subject_id: str) -> list[JudgeExchange]: ...

    def session(self, session_id: str) -> SessionState | None: ...

    def members(self, session_id: str) -> list[tuple[str, bool]]:
        """Return the traces of a session by start, each with whether it continues the turn before it."""

    def sessions(self, wanted: SessionFilter, cursor: str | None, limit: int) -> Page[SessionState]: ...

    def trace_ids(self, wanted: TraceFilter, cursor: str | None, limit: int) -> Page[str]: ...

    def attention(self, wanted: SessionFilter, most: int) -> list[AttentionRow]: ...

    def sessions_of(self, session_ids: Sequence[str]) -> list[SessionState]: ...

    def known_sessions(self, session_ids: Collection[str]) -> set[str]: ...

    def session_ends(self, agent: str) -> list[SessionEnding]: ...

    def flagged_traces(self, session_ids: Collection[str]) -> dict[str, list[str]]: ...

    def judged_failures(self, session_ids: Collection[str]) -> dict[str, int]: ...

    def deaths(self, session_ids: Sequence[str]) -> list[tuple[str, str, str]]:
        """Return the traces in which an agent died, by start: session, trace, and why it ended."""


class StoredData(Protocol):
    """The stored data. Thread-safe; raises Unavailable."""

    def snapshot(self) -> AbstractContextManager[StoreSnapshot]:
        """Return a context in which all look-ups see the data as of one moment."""


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
