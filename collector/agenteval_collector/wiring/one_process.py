"""Connect a tenant's pipeline in one process. Read `_connect` from its end to its start to follow a span: each stage is
given the one that it hands on to.

receiver -> log -> assembly -> evaluation -> store -> emit
                      |         |      ^       ^
                      v         v      |       |
               loops in        judge --+       |
               open traces --------------------+
"""

from functools import partial

from agenteval_collector.assembly.stage import Progress
from agenteval_collector.config.settings import Settings
from agenteval_collector.emit.feed import Feed, Participants
from agenteval_collector.evaluation.every_session import EverySession
from agenteval_collector.findings.loops.open_spans import OpenSpans
from agenteval_collector.log.request_file import RequestFile
from agenteval_collector.log.request_log import RequestLog
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.sessions.past_sessions import PastSessions
from agenteval_collector.wiring import stages
from agenteval_collector.wiring.emit import make_emit, make_output
from agenteval_collector.wiring.erasing import PipelineErasure
from agenteval_collector.wiring.pipeline import Pipeline
from agenteval_collector.wiring.scoring import reliability_reports
from agenteval_collector.wiring.storage import Storage, request_file


def pipeline_in_one_process(settings: Settings, clock: Clock, tenant: str, memory: MemoryGuard) -> Pipeline:
    """Connect all stages; none runs yet. Raises ConfigError where the settings are not safe, PermanentError
    where the data is not ours, and OSError where the data folder cannot be used."""
    storage = Storage(settings, clock, tenant, open_log=request_file)
    with storage.closed_on_error():
        return _connect(settings, clock, memory, storage)


def _connect(settings: Settings, clock: Clock, memory: MemoryGuard, storage: Storage[RequestFile]) -> Pipeline:
    store, requests = storage.store, storage.requests
    output = make_output(settings, storage, _always)
    base = stages.Foundation(settings, clock, memory, storage, output, is_on_duty=_always)

    # Everything that is told of findings and scores, and live detection, which tells of findings early.
    live, open_spans, past_sessions = stages.make_live_loops(base), OpenSpans(clock, base.telemetry), PastSessions()
    feed = Feed(base.telemetry, Participants(store, live, open_spans), clock)
    emit = make_emit(output, feed, past_sessions)
    found = stages.make_live_findings(base, live, open_spans, emit)

    # evaluation <-> judge; what is stored goes to `emit`, and back to the assembly as progress.
    inbox, progress = stages.make_inbox(settings), Progress(open_spans)
    evaluation = stages.make_evaluation(base, inbox, EverySession(), emit=emit, scored=progress, asks_again=_always)

    # receiver -> log -> assembly -> evaluation
    assembly = stages.make_assembly(base, found, traces=inbox, progress=progress, store=store)
    log = RequestLog(
        requests, clock, assembly.stage, tenant=storage.tenant, max_pending_bytes=settings.log.max_pending_bytes
    )
    ingest = stages.make_ingest(base, log, assembly.stage)
    memory.watch(log, assembly.stage, found.stage)

    # The end of data, and those who ask.
    erasure = PipelineErasure(storage, assembly, found.stage, evaluation, feed, base.telemetry)
    retention = stages.make_retention(base, erasure, (*store.files, requests.space), tell=_nobody)
    reliability = reliability_reports(settings, store, clock)
    queries = stages.make_queries(base, assembly.assembler, open_spans, evaluation, reliability)
    queues, levels = (log, found.stage, assembly.stage, evaluation.stage), evaluation.core.live.session_levels
    stages.show_levels(base, assembly.assembler, queues, queries, reliability, levels=levels, past=past_sessions)
    before_evaluation = (retention, log, assembly.stage, found.stage)
    return Pipeline(
        base=base,
        feed=feed,
        past_sessions=past_sessions,
        ingest=ingest,
        assembly=assembly,
        evaluation=evaluation,
        retention=retention,
        queries=queries,
        reports=stages.make_reports(base, inbox, found.take_starts, retention),
        components=(*before_evaluation, *evaluation.components),
        recover=retention.recover,
        # The evaluation last: the judge hands it what it says.
        stop=partial(stages.stop_in_turn, (*before_evaluation, *reversed(evaluation.components))),
    )


def _always() -> bool:
    """Return True: this process is the only one, so it shows the shared gauges, pushes events and deletes."""
    return True


def _nobody() -> None:
    """Tell nobody: there is no other process."""
