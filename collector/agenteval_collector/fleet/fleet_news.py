"""Carry out in one process what all processes of a tenant are told."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from agenteval_collector.app.stages import AssemblyParts, EvaluationParts, Foundation, LiveFindings
from agenteval_collector.config.settings import ProcessRole
from agenteval_collector.emit.feed import Feed
from agenteval_collector.fleet.deleted_traces import DeletedTraces
from agenteval_collector.fleet.trace_messages import TraceMessageHandler
from agenteval_collector.model.running_traces import StartsReport
from agenteval_collector.runtime.errand import Errand
from agenteval_collector.stores.retention import RetentionStage


@dataclass(frozen=True)
class FleetNewsHandler:
    """Takes what the reader of news hears. Each process does what its role needs."""

    base: Foundation
    live_findings: LiveFindings
    assembly: AssemblyParts
    evaluation: EvaluationParts
    trace_handler: TraceMessageHandler
    erased: DeletedTraces
    feed: Feed
    retention: RetentionStage

    def take_starts(self, report: StartsReport) -> None:
        """Note the spans that are open in a process. Only processes that assemble announce the findings on them."""
        if self.base.settings.role.does(ProcessRole.ASSEMBLE):
            self.live_findings.take_starts(report)
        else:
            self.live_findings.open_spans.take_starts(report)

    def wake_retention(self) -> None:
        """Look for a deletion that another process was asked for."""
        if self.base.settings.role.does(ProcessRole.SERVE):
            self.retention.wake()

    def forget(self, trace_ids: Sequence[str], session_ids: Sequence[str], deletion_id: str) -> None:
        """Forget what is deleted, wherever this process has it."""
        self.feed.forget(trace_ids)
        self.evaluation.judge.forget({*trace_ids, *session_ids})
        if self.base.settings.role.does(ProcessRole.EVALUATE):
            self.trace_handler.forget(
                trace_ids, self.base.clock.now(), Errand(partial(self._erase, trace_ids, session_ids, deletion_id))
            )
        else:
            self.erased.add(trace_ids, self.base.clock.now())
        if self.base.settings.role.does(ProcessRole.ASSEMBLE):
            self.assembly.stage.run_errand(Errand(partial(self.assembly.assembler.forget, trace_ids)))
            self.live_findings.stage.forget(trace_ids)

    def _erase(self, trace_ids: Sequence[str], session_ids: Sequence[str], deletion_id: str) -> None:
        """Forget on the evaluation's thread. Erase here, too, because a trace that was on its way may be stored after
        the process on duty has erased it. The receipt counts what is removed, whoever comes first."""
        self.evaluation.core.forget(trace_ids, session_ids)
        erase = self.base.store.deletions.erase
        self.evaluation.stage.insist(erase, trace_ids, session_ids, deletion_id, self.base.clock.now())
