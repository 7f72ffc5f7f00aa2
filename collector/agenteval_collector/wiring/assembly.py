"""The assembler, as the settings want it."""

from agenteval_collector.assembly import Assembler, SenderRules, Senders, Waits
from agenteval_collector.assembly.ports import ArrivalTaker, ReportedSpans
from agenteval_collector.config import AssemblyConfig
from agenteval_collector.model.counters import Telemetry
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.wiring.storage import Storage


def make_assembler(
    config: AssemblyConfig,
    clock: Clock,
    telemetry: Telemetry,
    storage: Storage,
    loops: ArrivalTaker,
    open_spans: ReportedSpans,
) -> Assembler:
    """Make the assembler over the store and the log, with what it learned of senders before."""
    return Assembler(
        clock=clock,
        telemetry=telemetry,
        store=storage.store,
        log=storage.requests,
        loops=loops,
        open_spans=open_spans,
        senders=Senders(storage.store.habits.load().items(), _sender_rules(config)),
        waits=Waits(
            settle=config.settle, settle_logs=config.settle_logs, silence=config.silence, max_age=config.max_age
        ),
        max_open_bytes=config.max_open_bytes,
        max_recent_bytes=config.max_recent_bytes,
    )


def _sender_rules(config: AssemblyConfig) -> dict[str, SenderRules]:
    """Return the rules for senders in the settings, by service."""
    return {
        service: SenderRules(
            outermost=frozenset(given.outermost),
            remote_parents=None if given.remote_parents is None else given.remote_parents == "wait",
            logs=given.logs,
        )
        for service, given in config.senders.items()
    }
