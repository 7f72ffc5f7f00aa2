"""The ports of the API: queries, and reports from outside."""

from collections.abc import Sequence
from typing import Protocol

from agenteval_collector.model.documents import Document, Page
from agenteval_collector.model.reports import Label, Rejudging, RunReport
from agenteval_collector.model.running import StartsReport
from agenteval_collector.model.session_filter import EVERY_SESSION, SessionFilter


class Queries(Protocol):
    """Queries of the HTTP API, the page and the gRPC service. Thread-safe; never blocks on ingestion."""

    def trace(self, trace_id: str) -> Document | None:
        """The trace document with its outcomes and labels; None where it is unknown."""
        ...

    def judgements(self, trace_id: str) -> list[Document] | None:
        """The judge's exchanges about a trace, in the order of asking; None where the trace is unknown."""
        ...

    def session(self, session_id: str) -> Document | None:
        """The session document; None where it is unknown."""
        ...

    def sessions(self, wanted: SessionFilter = EVERY_SESSION, *, limit: int = 50, cursor: str | None = None) -> Page:
        """The wanted sessions in the wanted order. Raises InvalidRequest for a cursor of another listing."""
        ...

    def hit_rate(self, agent: str) -> Document | None:
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
    ) -> Page:
        """Reliability over runs, by agent and version, those with the newest trace first.

        Raises InvalidRequest for an unknown variant, and for a cursor that is none of ours.
        """
        ...

    def reliability_comparison(
        self, before: str, after: str, *, agent: str | None = None, variant: str | None = None
    ) -> Document:
        """Version `after` of an agent beside version `before`.

        Raises NotFound where one of them has no runs, InvalidRequest for an unknown variant and where several agents
        have these versions.
        """
        ...

    def agreement(self, *, name: str | None = None) -> list[Document]:
        """The agreement of scores with labels: by name, method, version and model of the evaluator."""
        ...


class Reports(Protocol):
    """Reports from outside beside telemetry. Durable when the call returns; raises RetryableError."""

    def report_run(self, report: RunReport) -> None: ...

    def end_session(self, session_id: str) -> bool:
        """The session has had its last turn. Whether it is known: otherwise that is not durable, and holds for what is
        on the way."""
        ...

    def label(self, label: Label) -> None:
        """Keep a label instead of an earlier one of the same author."""
        ...

    def judge_again(self, trace_ids: Sequence[str], failed_since: int) -> Rejudging:
        """Have the judge score what it has not: of these traces, or, where there are none, of all that failed or were
        left out by the budget since that time (ns). Raises InvalidRequest where there is no judge."""
        ...

    def starts(self, report: StartsReport) -> None:
        """Take note of what runs: not durable but for its findings."""
        ...
