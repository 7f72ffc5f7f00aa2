"""The ports of the API: queries, reports from outside, and the records that queries read."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from agenteval_collector.api.documents import (
    AgreementDocument,
    ComparisonDocument,
    ExchangeDocument,
    HitRateDocument,
    ReliabilityDocument,
    SessionDocument,
    SessionItem,
    TraceDocument,
)
from agenteval_collector.model.cursors import Page
from agenteval_collector.model.found import MAX_SHOWN, Found
from agenteval_collector.model.judging import Exchange
from agenteval_collector.model.labelled import LabelledEvaluator
from agenteval_collector.model.reports import Label, Rejudging, RunReport
from agenteval_collector.model.running import OpenSpan, RunningTrace, StartsReport
from agenteval_collector.model.session_filter import EVERY_SESSION, SessionFilter
from agenteval_collector.model.sessions import SessionEnd, SessionRecord
from agenteval_collector.model.trace_view import TraceView
from otel_agenteval.finding import Finding
from otel_agenteval.outcome import Evaluation, Subject


class Queries(Protocol):
    """Queries of the HTTP API, the page and the gRPC service. Thread-safe; never blocks on ingestion."""

    def trace(self, trace_id: str) -> TraceDocument | None:
        """The trace document with its outcomes and labels; None where it is unknown."""
        ...

    def judgements(self, trace_id: str) -> list[ExchangeDocument] | None:
        """The judge's exchanges about a trace, in the order of asking; None where the trace is unknown."""
        ...

    def session(self, session_id: str) -> SessionDocument | None:
        """The session document; None where it is unknown."""
        ...

    def sessions(
        self, wanted: SessionFilter = EVERY_SESSION, *, limit: int = 50, cursor: str | None = None
    ) -> Page[SessionItem]:
        """The wanted sessions in the wanted order. Raises InvalidRequest for a cursor of another listing."""
        ...

    def hit_rate(self, agent: str) -> HitRateDocument | None:
        """The failure rates of the agent's sessions with an error finding, and without one; None while the ends of too
        few are known."""
        ...

    def reliability(
        self,
        *,
        agent: str | None = None,
        version: str | None = None,
        variant: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[ReliabilityDocument]:
        """Reliability over runs, by agent and version, those with the newest trace first.

        Raises InvalidRequest for an unknown variant, and for a cursor that is none of ours.
        """
        ...

    def reliability_comparison(
        self, before: str, after: str, *, agent: str | None = None, variant: str | None = None
    ) -> ComparisonDocument:
        """Version `after` of an agent beside version `before`.

        Raises NotFound where one of them has no runs, InvalidRequest for an unknown variant and where several agents
        have these versions.
        """
        ...

    def agreement(self, *, name: str | None = None) -> list[AgreementDocument]:
        """The agreement of scores with labels: by name, method, version and model of the evaluator."""
        ...


class Reports(Protocol):
    """Reports from outside beside telemetry. Durable when the call returns; raises RetryableError."""

    def report_run(self, report: RunReport) -> None: ...

    def end_session(self, session_id: str) -> bool:
        """Mark that the session has had its last turn. Returns whether it is known: else the mark is not durable, and
        is for traces that are on the way."""
        ...

    def label(self, label: Label) -> None:
        """Keep a label instead of an earlier one of the same author."""
        ...

    def judge_again(self, trace_ids: Sequence[str], failed_since: int) -> Rejudging:
        """Have the judge score what it has not scored: of these traces, or, without any, of all that failed or had no
        budget since that time (ns). Raises InvalidRequest where there is no judge."""
        ...

    def starts(self, report: StartsReport) -> None:
        """Take note of what runs: not durable but for its findings."""
        ...


class RecordSnapshot(Protocol):
    """Everything that is stored, as it is at one moment."""

    def trace(self, trace_id: str) -> TraceView | None: ...

    def first_finding(self, trace_id: str) -> Finding | None: ...

    def found_in_trace(self, trace_id: str) -> Found: ...

    def found_in_sessions(self, running: Mapping[str, Collection[str]], limit: int = MAX_SHOWN) -> dict[str, Found]:
        """The findings of sessions, at most `limit` of each. `running` has the traces of each that are not complete."""
        ...

    def evaluations(self, subject: Subject, ids: Sequence[str]) -> dict[str, list[Evaluation]]: ...

    def scores(self, session_id: str, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """By name, the score of each trace of a session that has one."""
        ...

    def labels(self, trace_id: str) -> list[Label]: ...

    def labelled(self, name: str | None) -> list[LabelledEvaluator]: ...

    def exchanges(self, trace_id: str) -> list[Exchange]: ...

    def session(self, session_id: str) -> SessionRecord | None: ...

    def members(self, session_id: str) -> list[tuple[str, bool]]:
        """The traces of a session by start, each with whether it continues a turn."""
        ...

    def sessions(self, wanted: SessionFilter, cursor: str | None, limit: int) -> Page[SessionRecord]: ...

    def known_sessions(self, session_ids: Collection[str]) -> set[str]: ...

    def session_ends(self, agent: str) -> list[SessionEnd]: ...

    def flagged_traces(self, session_ids: Collection[str]) -> dict[str, list[str]]: ...

    def judged_failures(self, session_ids: Collection[str]) -> dict[str, int]: ...

    def deaths(self, session_ids: Sequence[str]) -> list[tuple[str, str, str]]:
        """The traces in which an agent died, by start: session, trace, and the reason for its end."""
        ...


class Records(Protocol):
    """Everything that is stored. Thread-safe; raises Unavailable."""

    def snapshot(self) -> AbstractContextManager[RecordSnapshot]:
        """Look at the records as they are at one moment."""
        ...


class RunningTraces(Protocol):
    """The traces that are not complete. Thread-safe."""

    def trace(self, trace_id: str) -> TraceView | None:
        """A view of a running trace; None where none of this id is known to run."""

    def traces(self) -> Sequence[RunningTrace]:
        """All running traces, or the newest where there are many."""

    def open_spans(self, trace_id: str) -> tuple[Sequence[OpenSpan], str | None]:
        """The spans of a trace that have begun and not ended, and why they will not end; None where they may."""


class JudgeState(Protocol):
    """The state of the judge. Thread-safe."""

    @property
    def trouble(self) -> str | None:
        """The reason why traces wait for the judge; None where nothing is wrong."""


class NothingRuns:
    """The running traces, and the judge's state, of a store that nothing is added to."""

    trouble = None

    def trace(self, trace_id: str) -> TraceView | None:
        return None

    def traces(self) -> Sequence[RunningTrace]:
        return ()

    def open_spans(self, trace_id: str) -> tuple[Sequence[OpenSpan], str | None]:
        return (), None


class Lost(Protocol):
    """A number of events that were lost at this point of a subscription."""

    @property
    def count(self) -> int: ...


class Subscription(Protocol):
    """The events that one watcher has not read yet, bounded; `get` returns None after `timeout` seconds without one."""

    @property
    def closed(self) -> bool: ...

    def get(self, timeout: float) -> Evaluation | Finding | Lost | None: ...

    def close(self) -> None: ...


class Feed(Protocol):
    """The source of subscriptions."""

    def subscribe(
        self, session_id: str | None, names: Collection[str], process_id: str | None, missed_seconds: float
    ) -> Subscription: ...
