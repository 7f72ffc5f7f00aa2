"""Reports from outside beside telemetry, on the store, the evaluation and the open spans. They come by the gate."""

from collections.abc import Sequence
from dataclasses import dataclass

from agenteval_collector.ingest.quotas import Quotas
from agenteval_collector.ingest.redacting import RequestRedaction
from agenteval_collector.model.deletions import DeletionFilter, Receipt
from agenteval_collector.model.judge_jobs import Rejudging
from agenteval_collector.model.labels import Label
from agenteval_collector.model.running_traces import StartsReport
from agenteval_collector.model.runs import RunReport
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.serve.api.ports import JudgeCheck, SessionTaker, StartsTaker
from agenteval_collector.stores.retention import RetentionStage
from agenteval_collector.stores.store import Store

MOST_AGAIN = 500
"""Traces that are judged again by one call."""
AGAIN_WITHIN = 4.0
"""Seconds that a call to judge again waits for the evaluation: less than the web port waits for a write."""


@dataclass(frozen=True, kw_only=True)
class Reports:
    """Takes reports from outside beside telemetry. A report is durable when the call returns. Raises RetryableError."""

    store: Store
    evaluation: SessionTaker
    open_spans: StartsTaker
    judge: JudgeCheck
    retention: RetentionStage
    redaction: RequestRedaction | None = None
    """Redacts what is kept, at the gate; None if it is kept as it came."""
    quotas: Quotas | None = None
    """What the tenant and its keys may send, counted at the gate; None if that has no bounds."""

    def report_run(self, report: RunReport) -> None:
        self.store.report_run(report)

    def end_session(self, session_id: str) -> bool:
        """Mark the session as ended. Returns whether it is known.

        The mark of an unknown session is not durable: it is kept for traces on the way.
        """
        session = self.store.end_session(session_id)
        self.evaluation.end_session(session_id, marked=session)
        return session

    def await_end(self, session_id: str, sender: str) -> bool:
        """Let the session end with the next trace of this sender that is on the way. Returns False: it is not known as
        the sender's."""
        self.evaluation.end_session(session_id, marked=False, sender=sender)
        return False

    def processes_in(self, session_id: str) -> frozenset[str]:
        """Return the processes in the newest traces of a session (`model.callers.participant_of`)."""
        return self.store.processes_in(session_id)

    def label(self, label: Label) -> None:
        """Keep a label; it replaces an earlier one of the same author."""
        self.store.label(label)

    def resolve_problem(self, problem_id: str, by: str | None) -> bool:
        """Mark a problem as resolved. Returns whether it is known."""
        return self.store.problems.resolve(problem_id, by)

    def mute_problem(self, problem_id: str, until: int | None, by: str | None) -> bool:
        """Mute a problem until that time (ns); None ends the muting. Returns whether the problem is known."""
        return self.store.problems.mute(problem_id, until, by)

    def merge_problem(self, problem_id: str, into_id: str, by: str | None) -> None:
        """Merge a problem into another one, or a text of a problem that was split back into it.

        Raises NotFound and InvalidRequest.
        """
        self.store.problem_moves.merge(problem_id, into_id, by)

    def split_problem(self, problem_id: str, by: str | None, *, by_text: bool) -> None:
        """Take apart what was merged into a problem, or each text of it. Raises NotFound and InvalidRequest."""
        if by_text:
            self.store.problem_moves.split(problem_id, by)
        else:
            self.store.problem_moves.take_apart(problem_id)

    def judge_again(self, trace_ids: Sequence[str], session_ids: Sequence[str], failed_since: int) -> Rejudging:
        """Have the judge score these traces and sessions if it has not. Without any, it scores all that failed or
        had no budget since that time (ns).

        Raises InvalidRequest if there is no judge.
        """
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
        """Return why the judge's endpoint would not answer; None if it would. Costs nothing.

        Raises InvalidRequest if there is no judge.
        """
        return self.judge.trouble()

    def starts(self, report: StartsReport) -> None:
        """Take spans that have started. Not durable, except for the findings."""
        self.open_spans.take_starts(report)

    def delete(self, wanted: DeletionFilter, by: str | None) -> Receipt:
        """Request a deletion. The request is durable when this returns; the deletion may go on after that."""
        return self.retention.delete(wanted, by)

    def receipt(self, deletion_id: str) -> Receipt:
        """Return what a deletion has removed so far. Waits up to a few seconds for its end. Raises NotFound."""
        return self.retention.receipt(deletion_id)
