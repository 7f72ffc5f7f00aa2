"""Connect a tenant's pipeline in one process. Read `_connect` from its end to its start to follow a span: each stage is
given the one that it hands on to.

receiver -> log -> assembly -> evaluation -> store -> emit
                      |         |      ^       ^
                      v         v      |       |
               loops in        judge --+       |
               open traces --------------------+
"""

import logging
from functools import partial

from agenteval_collector.app import stages
from agenteval_collector.app.emit import make_emit, make_output
from agenteval_collector.app.erasing import PipelineErasure
from agenteval_collector.app.pipeline import Pipeline
from agenteval_collector.app.storage import LOG, Storage, request_file
from agenteval_collector.assembly.stage import Progress
from agenteval_collector.config.settings import Settings
from agenteval_collector.emit.feed import Feed, Participants
from agenteval_collector.evaluation.ports import EverySession
from agenteval_collector.evaluation.sessions.past_sessions import PastSessions
from agenteval_collector.ingest.ingest import Ingest
from agenteval_collector.ingest.request_file import RequestFile
from agenteval_collector.ingest.request_log import RequestLog
from agenteval_collector.live.open_spans import OpenSpans
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.memory import MemoryGuard

logger = logging.getLogger(__name__)


def pipeline_in_one_process(settings: Settings, clock: Clock, tenant: str, memory: MemoryGuard) -> Pipeline:
    """Connect all stages; none runs yet. Raises ConfigError if the settings are not safe, PermanentError
    if the data is not ours, and OSError if the data folder cannot be used."""
    storage = Storage(settings, clock, tenant, open_log=request_file(settings, tenant))
    with storage.closed_on_error():
        checkpoint = storage.store.checkpoint()
        if storage.requests.go_on_after(checkpoint):
            logger.warning(
                "%s is a new or an older file: it lacks requests up to %d, which the store knows", LOG, checkpoint
            )
        return _connect(settings, clock, memory, storage)


def _connect(settings: Settings, clock: Clock, memory: MemoryGuard, storage: Storage[RequestFile]) -> Pipeline:
    store, requests = storage.store, storage.requests
    output = make_output(settings, storage, _always)
    base = stages.Foundation(settings, clock, memory, storage, output, is_on_duty=_always)

    # These hear of each commit: watchers, instruments, and the assembly (its progress).
    live_loops, open_spans = stages.make_live_loops(base), OpenSpans(clock, base.telemetry)
    feed, past_sessions = Feed(base.telemetry, Participants(store, live_loops, open_spans), clock), PastSessions()
    emit, progress = make_emit(output, feed, past_sessions), Progress(open_spans)

    inbox = stages.make_inbox(settings)
    evaluation = stages.make_evaluation(base, inbox, EverySession(), emit=emit, scored=progress, asks_again=_always)
    live_findings = stages.make_live_findings(base, live_loops, open_spans, emit)
    assembly = stages.make_assembly(base, live_findings, traces=inbox, progress=progress, store=store)
    log = RequestLog(
        requests, clock, assembly.stage, tenant=storage.tenant, max_pending_bytes=settings.log.max_pending_bytes
    )
    ingest = stages.make_ingest(base, log, assembly.stage)
    return _pipeline(base, storage, feed, past_sessions, evaluation, live_findings, assembly, log, ingest)


def _pipeline(
    base: stages.Foundation,
    storage: Storage[RequestFile],
    feed: Feed,
    past_sessions: PastSessions,
    evaluation: stages.EvaluationParts,
    live_findings: stages.LiveFindings,
    assembly: stages.AssemblyParts,
    log: RequestLog,
    ingest: Ingest,
) -> Pipeline:
    """Add what is beside the way of a span: retention, queries, reports and gauges."""
    erasure = PipelineErasure(storage, assembly, live_findings.stage, evaluation, feed, base.telemetry)
    retention = stages.make_retention(base, erasure, (*storage.store.files, storage.requests.space), tell=_nobody)
    queries = stages.make_queries(base, assembly.assembler, live_findings.open_spans, evaluation)
    queues, levels = (log, live_findings.stage, assembly.stage, evaluation.stage), evaluation.core.live.session_levels
    stages.register_gauges(base, assembly.assembler, queues, queries, levels=levels, past=past_sessions)
    before_evaluation = (retention, log, assembly.stage, live_findings.stage)
    return Pipeline(
        base=base,
        feed=feed,
        past_sessions=past_sessions,
        ingest=ingest,
        assembly=assembly,
        evaluation=evaluation,
        retention=retention,
        queries=queries,
        reports=stages.make_reports(base, evaluation.inbox, live_findings, retention),
        components=(*before_evaluation, *evaluation.components),
        holders=(log, assembly.stage, live_findings.stage),
        recover=retention.recover,
        # The evaluation is stopped after the judge, which hands its judgements to it.
        stop=partial(stages.stop_in_turn, (*before_evaluation, *reversed(evaluation.components))),
    )


def _always() -> bool:
    """Return True: this process is the only one, so it shows the shared gauges, pushes events and deletes."""
    return True


def _nobody() -> None:
    """Tell nobody: there is no other process."""
