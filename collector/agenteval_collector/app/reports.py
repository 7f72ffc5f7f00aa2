"""Reports from outside beside telemetry, on the store, the evaluation and the open spans."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agenteval_collector.app.ports import JudgeCheck, SessionTaker, StartsTaker
from agenteval_collector.ingest.redacting import RequestRedaction
from agenteval_collector.model.deletions import DeletionFilter, Receipt
from agenteval_collector.model.judge_jobs import Rejudging
from agenteval_collector.model.labels import Label
from agenteval_collector.model.running_traces import StartsReport
from agenteval_collector.model.runs import RunReport
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.stores.retention import RetentionStage
from agenteval_collector.stores.store import Store

MOST_AGAIN = 500
"""Traces that are judged again by one call."""
AGAIN_WITHIN = 4.0
"""Seconds that a call to judge again waits for the evaluation: less than the web port waits for a write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReports:
    """The `Reports` of the API."""

    store: Store
    evaluation: SessionTaker
    open_spans: StartsTaker
    judge: JudgeCheck
    retention: RetentionStage
    redaction: RequestRedaction | None = None
    """Redacts what is kept; None if it is kept as it came."""

    def report_run(self, report: RunReport) -> None:
        self.store.report_run(report)

    def end_session(self, session_id: str) -> bool:
        session = self.store.end_session(session_id)
        self.evaluation.end_session(session_id, marked=session)
        return session

    def label(self, label: Label) -> None:
        if self.redaction is not None and label.note:
            label = replace(label, note=self.redaction.text(label.note))
        self.store.label(label)

    def resolve_problem(self, problem_id: str, by: str | None) -> bool:
        return self.store.problems.resolve(problem_id, by)

    def mute_problem(self, problem_id: str, until: int | None, by: str | None) -> bool:
        return self.store.problems.mute(problem_id, until, by)

    def judge_again(self, trace_ids: Sequence[str], session_ids: Sequence[str], failed_since: int) -> Rejudging:
        self.judge.require()
        limit = MOST_AGAIN + 1
        judged = self.store.judged
        if trace_ids or session_ids:
            left_out_traces = judged.left_out(trace_ids, session_ids, limit)
        else:
            left_out_traces = judged.failed_since(failed_since, limit)
        try:
            count = self.evaluation.judge_again(left_out_traces[:MOST_AGAIN]).result(AGAIN_WITHIN)
        except TimeoutError as error:
            raise Unavailable(f"not done within {AGAIN_WITHIN:g} s; it may still be") from error
        return Rejudging(traces=count, more=len(left_out_traces) > count)

    def check_judge(self) -> str | None:
        return self.judge.trouble()

    def starts(self, report: StartsReport) -> None:
        self.open_spans.take_starts(report if self.redaction is None else self.redaction.starts(report))

    def delete(self, wanted: DeletionFilter, by: str | None) -> Receipt:
        return self.retention.delete(wanted, by)

    def receipt(self, deletion_id: str) -> Receipt:
        return self.retention.receipt(deletion_id)
