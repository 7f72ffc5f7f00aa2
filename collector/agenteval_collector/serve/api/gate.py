"""The gate that every report and change from outside passes, over gRPC, the API and the page.

Here is decided what a caller may do (`Caller`), whose its reports are, and what of them is replaced before it is kept.
Telemetry passes `Ingest`, which decides by the same rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agenteval_collector.model.callers import Caller, Scope, participant_of, sender_of
from agenteval_collector.model.deletions import DeletionFilter, Receipt
from agenteval_collector.model.judge_jobs import Rejudging
from agenteval_collector.model.labels import Label, LabelSource
from agenteval_collector.model.running_traces import StartsReport
from agenteval_collector.model.runs import RunReport
from agenteval_collector.runtime.errors import QuotaExceeded
from agenteval_collector.serve.api.reports import Reports


@dataclass(frozen=True, slots=True)
class Gate:
    """The reports of one caller. Every method raises NotAllowed if its scopes do not reach, and what `Reports` raises.

    What agents send counts for the quotas as spans do; QuotaExceeded is raised while one of them is overdrawn. What
    people ask for is theirs to ask.

    Who may only write speaks of what came with its own key: its processes, its runs, its sessions.
    """

    reports: Reports
    caller: Caller

    def report_run(self, report: RunReport) -> None:
        """Keep a report on a run of the caller's own."""
        self.caller.require(Scope.WRITE)
        self._count(1)
        redaction = self.reports.redaction
        if redaction is not None:
            # As in the spans of the run, which it could not be joined to otherwise.
            agent, version = redaction.name(report.agent), redaction.name(report.service_version)
            report = replace(report, agent=agent, service_version=version)
        self.reports.report_run(replace(report, sender=self.caller.speaks_as))

    def starts(self, report: StartsReport) -> None:
        """Take spans that have started in a process of the caller's own. Not durable, except for the findings.

        Of a caller that has sent too much it is a sign of life alone: a refusal would let its process seem dead.
        """
        self.caller.require(Scope.WRITE)
        process_id = participant_of(self.caller.name, report.process_id) or report.process_id
        try:
            self._count(len(report.starts) + len(report.findings))
        except QuotaExceeded:
            report = replace(report, starts=(), findings=(), all_open=False)
        redaction = self.reports.redaction
        own = replace(report, process_id=process_id)
        self.reports.starts(own if redaction is None else redaction.starts(own))

    def end_session(self, session_id: str) -> bool:
        """Mark a session as ended. Returns whether it is known and the caller may end it.

        The mark of any other is not durable: it is kept for traces of the caller that are on the way.
        """
        self.caller.require(Scope.WRITE)
        self._count(1)
        sender = self.caller.speaks_as
        if sender and sender not in map(sender_of, self.reports.processes_in(session_id)):
            return self.reports.await_end(session_id, sender)
        return self.reports.end_session(session_id)

    def feedback(self, label: Label) -> None:
        """Keep what an end user said. It replaces what the same author said by the same key."""
        self.caller.require(Scope.WRITE)
        self._count(1, len(label.note or ""))
        self._keep(replace(label, source=LabelSource.USER))

    def label(self, label: Label) -> None:
        """Keep a person's label; it replaces an earlier one of the same author."""
        self.caller.require(Scope.LABEL)
        self._count(1, len(label.note or ""))
        self._keep(replace(label, source=LabelSource.PERSON))

    def resolve_problem(self, problem_id: str, by: str | None) -> bool:
        """Mark a problem as resolved. Returns whether it is known."""
        self.caller.require(Scope.LABEL)
        return self.reports.resolve_problem(problem_id, by)

    def mute_problem(self, problem_id: str, until: int | None, by: str | None) -> bool:
        """Mute a problem until that time (ns); None ends the muting. Returns whether the problem is known."""
        self.caller.require(Scope.LABEL)
        return self.reports.mute_problem(problem_id, until, by)

    def merge_problem(self, problem_id: str, into_id: str, by: str | None) -> None:
        """Merge a problem into another one, or a text of a problem that was split back into it."""
        self.caller.require(Scope.LABEL)
        self.reports.merge_problem(problem_id, into_id, by)

    def split_problem(self, problem_id: str, by: str | None, *, by_text: bool) -> None:
        """Take apart what was merged into a problem, or each text of it."""
        self.caller.require(Scope.LABEL)
        self.reports.split_problem(problem_id, by, by_text=by_text)

    def judge_again(self, trace_ids: Sequence[str], session_ids: Sequence[str], failed_since: int) -> Rejudging:
        """Have the judge score these traces and sessions if it has not. Without any, it scores all that failed or
        had no budget since that time (ns)."""
        self.caller.require(Scope.LABEL)
        return self.reports.judge_again(trace_ids, session_ids, failed_since)

    def check_judge(self) -> str | None:
        """Return why the judge's endpoint would not answer; None if it would. Costs nothing."""
        self.caller.require(Scope.LABEL)
        return self.reports.check_judge()

    def delete(self, wanted: DeletionFilter, by: str | None) -> Receipt:
        """Request a deletion. The request is durable when this returns; the deletion may go on after that."""
        self.caller.require(Scope.ADMIN)
        return self.reports.delete(wanted, by)

    def receipt(self, deletion_id: str) -> Receipt:
        """Return what a deletion has removed so far. Waits up to a few seconds for its end."""
        self.caller.require(Scope.ADMIN)
        return self.reports.receipt(deletion_id)

    def _count(self, items: int, size: int = 0) -> None:
        if (quotas := self.reports.quotas) is not None:
            quotas.admit(self.caller)
            quotas.charge(self.caller, items, size, set())

    def _keep(self, label: Label) -> None:
        redaction = self.reports.redaction
        if redaction is not None:
            label = replace(label, name=redaction.text(label.name), note=redaction.name(label.note))
        self.reports.label(replace(label, sender=self.caller.speaks_as))
