"""Reports from outside beside telemetry, on the store, the evaluation and the open spans."""

from collections.abc import Callable, Sequence

from agenteval_collector.config import NO_JUDGE
from agenteval_collector.model.deletion import Doomed, Receipt
from agenteval_collector.model.reports import Label, Rejudging, RunReport
from agenteval_collector.model.running import StartsReport
from agenteval_collector.retention import RetentionStage
from agenteval_collector.runtime.errors import InvalidRequest, Unavailable
from agenteval_collector.stores import Store
from agenteval_collector.wiring.ports import SessionTaker

MOST_AGAIN = 500
"""Traces that are judged again by one call."""
AGAIN_WITHIN = 4.0
"""Seconds that a call to judge again waits for the evaluation: less than the web port waits for a write."""


class StoredReports:
    """The `Reports` of the API."""

    def __init__(
        self,
        store: Store,
        evaluation: SessionTaker,
        take_starts: Callable[[StartsReport], None],
        judge: Callable[[], str | None] | None,
        retention: RetentionStage,
    ) -> None:
        """`take_starts` takes the spans that are open in a process. `judge` says why the judge's endpoint would not
        answer; None: there is no judge."""
        self._store = store
        self._evaluation = evaluation
        self._take_starts = take_starts
        self._judge = judge
        self._retention = retention

    def report_run(self, report: RunReport) -> None:
        self._store.report_run(report)

    def end_session(self, session_id: str) -> bool:
        known = self._store.end_session(session_id)
        self._evaluation.end_session(session_id, marked=known)
        return known

    def label(self, label: Label) -> None:
        self._store.label(label)

    def resolve_problem(self, problem_id: str, by: str | None) -> bool:
        return self._store.problems.resolve(problem_id, by)

    def mute_problem(self, problem_id: str, until: int | None, by: str | None) -> bool:
        return self._store.problems.mute(problem_id, until, by)

    def judge_again(self, trace_ids: Sequence[str], session_ids: Sequence[str], failed_since: int) -> Rejudging:
        if self._judge is None:
            raise InvalidRequest(NO_JUDGE)
        limit = MOST_AGAIN + 1
        judged = self._store.judged
        if trace_ids or session_ids:
            found = judged.left_out(trace_ids, session_ids, limit)
        else:
            found = judged.failed_since(failed_since, limit)
        try:
            count = self._evaluation.judge_again(found[:MOST_AGAIN]).result(AGAIN_WITHIN)
        except TimeoutError as error:
            raise Unavailable(f"not done within {AGAIN_WITHIN:g} s; it may still be") from error
        return Rejudging(traces=count, more=len(found) > count)

    def check_judge(self) -> str | None:
        if self._judge is None:
            raise InvalidRequest(NO_JUDGE)
        return self._judge()

    def delete(self, doomed: Doomed, by: str | None) -> Receipt:
        return self._retention.delete(doomed, by)

    def receipt(self, deletion_id: str) -> Receipt:
        return self._retention.receipt(deletion_id)

    def starts(self, report: StartsReport) -> None:
        self._take_starts(report)
