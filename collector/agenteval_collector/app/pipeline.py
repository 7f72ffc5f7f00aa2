"""A tenant's pipeline, connected in one process (in several: `fleet/composition.py`), and the pipelines of all tenants.

Read `_connect` from its end to its start to follow a span: each stage is given the one that it hands on to.

receiver -> log -> assembly -> evaluation -> store -> emit
                      |         |      ^       ^
                      v         v      |       |
               loops in        judge --+       |
               open traces --------------------+
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from agenteval_collector.app import stages
from agenteval_collector.app.stages import (
    STOPPED_WITHIN,
    AssemblyParts,
    EvaluationParts,
    Foundation,
    make_emit,
    make_output,
)
from agenteval_collector.app.storage import LOG, Storage, request_file
from agenteval_collector.assembly.stage import Progress
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.emit.feed import MAX_VERDICTS, Feed, Participants
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.evaluation.ports import EverySession
from agenteval_collector.evaluation.sessions.past_sessions import PastSessions
from agenteval_collector.ingest.ingest import Ingest
from agenteval_collector.ingest.quotas import Quotas
from agenteval_collector.ingest.request_file import TOGETHER, RequestFile
from agenteval_collector.ingest.request_log import RequestLog
from agenteval_collector.ingest.request_traces import erase_page
from agenteval_collector.live.open_spans import OpenSpans
from agenteval_collector.live.stage import LoopStage
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.callers import DEFAULT_TENANT, Caller, Scope
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.deletions import DeletionFilter
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Component, Poller, health_of
from agenteval_collector.runtime.errand import Errand
from agenteval_collector.runtime.errors import CollectorError, Unavailable
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.runtime.ports import Holder
from agenteval_collector.runtime.work import ERASING, WorkAccount
from agenteval_collector.runtime.work_in_hand import WorkInHand
from agenteval_collector.runtime.workers import Workers
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.serve.api.reports import Reports
from agenteval_collector.stores.deletions import DeletionStore
from agenteval_collector.stores.quarantine import Quarantine
from agenteval_collector.stores.retention import RetentionStage
from agenteval_collector.stores.retention_ports import DoomedTraces
from otel_agenteval.internal.text import storable

ALL_STOPPED_WITHIN: Final = 8.0
"""Seconds for all components to finish what waits for them."""
REMEMBERED_SESSIONS: Final = 20_000
"""Newest sessions of earlier processes, with whose scores new ones are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Everything of one tenant behind the doors, connected. Nothing runs before `start`; `shutdown` stops the stages
    that take in before those that they hand on to. Two tenants' pipelines share no data."""

    base: Foundation
    feed: Feed
    past_sessions: PastSessions
    ingest: Ingest
    assembly: AssemblyParts
    evaluation: EvaluationParts
    retention: RetentionStage
    queries: Queries
    reports: Reports
    components: Sequence[Component]
    """The components that run in this process. One that hands on to another stands before it."""
    holders: Sequence[Holder]
    """The parts whose items take memory until they are worked off."""
    recover: Callable[[], None]
    """Does what must be done before any of them starts."""
    stop: Callable[[float], None]
    """Stops all of them by a deadline, in the order that loses nothing; safe before the start and twice."""

    @property
    def output(self) -> TelemetryOutput:
        """The instruments of this tenant."""
        return self.base.output

    def start(self) -> None:
        """Take up what the last process left, then run."""
        store = self.base.store
        self.recover()
        self.base.quarantine.take_up()
        self.feed.remember(store.findings.newest(MAX_VERDICTS))
        self.past_sessions.remember(store.past_sessions(REMEMBERED_SESSIONS))
        # From the last stage to the first: what is handed on finds a stage that runs.
        for component in reversed(self.components):
            component.start()
        self.base.memory.watch(*self.holders)

    @property
    def health(self) -> str | None:
        """None while every stage can do its work, else why not."""
        return health_of(self.components)

    def shutdown(self) -> None:
        """Commit and score what is complete, push what waits; safe twice, within 15 s. The doors are closed before."""
        storage = self.base.storage
        if storage.closed:
            return
        self.stop(time.monotonic() + ALL_STOPPED_WITHIN)
        self.output.shutdown(3.0)
        storage.shutdown()


def pipeline_in_one_process(
    settings: Settings, clock: Clock, tenant: str, memory: MemoryGuard, hand: WorkInHand, workers: Workers | None
) -> Pipeline:
    """Connect all stages; none runs yet. `hand` notes what the process works on. Raises ConfigError if the settings are
    not safe, PermanentError if the data is not ours, and OSError if the data folder cannot be used."""
    storage = Storage(settings, clock, tenant, open_log=request_file(settings, tenant))
    with storage.closed_on_error():
        checkpoint = storage.store.checkpoint()
        if storage.requests.go_on_after(checkpoint):
            logger.warning(
                "%s is a new or an older file: it lacks requests up to %d, which the store knows", LOG, checkpoint
            )
        return _connect(settings, clock, memory, hand, storage, workers)


def _connect(
    settings: Settings,
    clock: Clock,
    memory: MemoryGuard,
    hand: WorkInHand,
    storage: Storage[RequestFile],
    workers: Workers | None,
) -> Pipeline:
    store, requests = storage.store, storage.requests
    output = make_output(settings, storage, _always)
    quarantine = Quarantine(store.quarantine, hand, storage.tenant, clock)
    quotas = Quotas(settings.server.quotas, clock)
    base = stages.Foundation(settings, clock, memory, storage, quarantine, output, _always, quotas, workers)

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
    erasure = PipelineErasure(
        storage, assembly, live_findings.stage, evaluation, feed, base.telemetry, base.memory.work, base.clock
    )
    retention = stages.make_retention(base, erasure, (*storage.store.files, storage.requests.space), tell=_nobody)
    queries = stages.make_queries(base, assembly.assembler, live_findings.open_spans, evaluation)
    queues, levels = (log, live_findings.stage, assembly.stage, evaluation.stage), evaluation.core.live.session_levels
    regressions = stages.make_regressions(base)
    stages.register_gauges(base, assembly, queues, queries, regressions, levels=levels, past=past_sessions)
    reports = stages.make_reports(base, evaluation.inbox, live_findings, retention)
    deciding = (stages.make_alarms(base, regressions), *stages.make_uncertain_asking(base, queries, reports))
    beside = (retention, *deciding, *stages.make_notifiers(base))
    before_evaluation = (*beside, log, assembly.stage, live_findings.stage)
    return Pipeline(
        base=base,
        feed=feed,
        past_sessions=past_sessions,
        ingest=ingest,
        assembly=assembly,
        evaluation=evaluation,
        retention=retention,
        queries=queries,
        reports=reports,
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


TENANTS_LOOKED_UP_EVERY: Final = 10.0
"""Seconds between two looks for new tenants."""


class Pipelines:
    """One pipeline for each tenant.

    Tenants in the settings have theirs from the start. Other tenants get theirs at their first call, to this process or
    to another one of the fleet.

    The caller alone decides to which tenant a call belongs (`model/callers.py`).
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        tenants: Iterable[str],
        memory: MemoryGuard,
        workers: Workers | None = None,
    ) -> None:
        """Let all of them share the `workers`, which end with them. There is always one for the default tenant.

        Raises what `pipeline_in_one_process` raises.
        """
        self._settings = settings
        self._clock = clock
        self._memory = memory
        self.workers = workers
        self._hand = WorkInHand(settings.data_dir)
        self._pipelines: dict[str, Pipeline] = {}
        self._running = False
        self._watch: TenantWatch | None = None
        # Guards the mapping and the state against calls of new tenants; looking up a known one takes no lock.
        self._lock = threading.Lock()
        try:
            for tenant in sorted({DEFAULT_TENANT, *tenants}):
                self._pipelines[tenant] = self._make(tenant)
        except BaseException:
            self.shutdown()
            raise

    def start(self) -> None:
        """Start the pipelines of all tenants."""
        with self._lock:
            self._running = True
            # Only now: the folder is locked.
            self._hand.open()
            for pipeline in self._pipelines.values():
                pipeline.start()
        if (url := self._settings.log.url) is not None:
            # Imported here for the reason that `_make` gives.
            from agenteval_collector.fleet.cluster import TenantTopics  # noqa: PLC0415

            self._watch = TenantWatch(TenantTopics(url).tenants, self.of)
            self._watch.start()

    def of(self, tenant: str) -> Pipeline:
        """Return the pipeline of a tenant. Raises Unavailable if a new one cannot be started now."""
        return self._pipelines.get(tenant) or self._started(tenant)

    def render(self, headers: Mapping[str, str], caller: Caller) -> tuple[bytes, str]:
        """Return the page for Prometheus and its content type. It has the series of the caller's tenant; for an
        administrator of the default tenant it has those of all tenants."""
        own = self.of(caller.tenant)
        sees_all = caller.tenant == DEFAULT_TENANT and Scope.ADMIN in caller.scopes
        others = [pipeline.output for pipeline in list(self._pipelines.values()) if sees_all and pipeline is not own]
        return own.output.render(headers, others)

    @property
    def health(self) -> str | None:
        """None while one of them can do its work, else why none can. It names no tenant, as everybody may ask. A tenant
        that is held up alone is no reason to take the process from the others."""
        troubles = [pipeline.health for pipeline in list(self._pipelines.values())]
        reasons = {trouble for trouble in troubles if trouble is not None}
        return "; ".join(sorted(reasons)) if None not in troubles and reasons else None

    @property
    def lost(self) -> str | None:
        """Why data of a tenant is lost; None if none is."""
        troubles = (pipeline.base.storage.lost for pipeline in list(self._pipelines.values()))
        return next((trouble for trouble in troubles if trouble is not None), None)

    def close_feeds(self) -> None:
        """End the streams of all watchers."""
        for pipeline in list(self._pipelines.values()):
            pipeline.feed.close()

    def shutdown(self) -> None:
        """Stop all of them at once, in the time that one takes; safe twice. No new one starts afterwards."""
        if self._watch is not None:
            self._watch.shutdown(STOPPED_WITHIN)
        with self._lock:
            self._running = False
            pipelines = list(self._pipelines.values())
        if pipelines:
            with ThreadPoolExecutor(len(pipelines), "agenteval-stop") as pool:
                list(pool.map(Pipeline.shutdown, pipelines))
        if self.workers is not None:
            self.workers.shutdown()
        self._hand.close()

    def _make(self, tenant: str) -> Pipeline:
        if self._settings.log.url is None:
            return pipeline_in_one_process(self._settings, self._clock, tenant, self._memory, self._hand, self.workers)
        try:
            # Imported here: Kafka's client is not installed, or not loaded, if nobody asks for it.
            from agenteval_collector.fleet.composition import pipeline_in_a_fleet  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(f"log.url: {error}; install the extras `kafka` and `postgres`") from error
        return pipeline_in_a_fleet(self._settings, self._clock, tenant, self._memory, self._hand, self.workers)

    def _started(self, tenant: str) -> Pipeline:
        with self._lock:
            if (known := self._pipelines.get(tenant)) is not None:
                return known
            if not self._running:
                raise Unavailable("the collector is stopping")
            try:
                pipeline = self._make_running(tenant)
            except (ConfigError, CollectorError, OSError) as error:
                logger.error("the tenant %s cannot be served: %s", tenant, error)
                raise Unavailable("the tenant's data cannot be used now; the collector's log says why") from error
            logger.info("the tenant %s is served from now on", tenant)
            self._pipelines[tenant] = pipeline
            return pipeline

    def _make_running(self, tenant: str) -> Pipeline:
        pipeline = self._make(tenant)
        try:
            pipeline.start()
        except BaseException:
            # It holds the tenant's folder, which the next attempt needs.
            pipeline.shutdown()
            raise
        return pipeline


class TenantWatch(Poller):
    """Starts the pipelines of new tenants in a process that nobody calls, such as an evaluator."""

    def __init__(self, tenants: Callable[[], Iterable[str]], take_up: Callable[[str], object]) -> None:
        """`tenants` returns the tenants that any process knows. `take_up` starts the pipeline of one, unless it
        runs."""
        super().__init__("tenants", TENANTS_LOOKED_UP_EVERY)
        self._tenants = tenants
        self._take_up = take_up

    def step(self) -> None:
        for tenant in self.insist(self._tenants):
            self.survive(self._try, tenant)

    def _try(self, tenant: str) -> None:
        try:
            self._take_up(tenant)
        except Unavailable as error:
            self._logger.warning("the tenant %s waits for the next look: %s", tenant, error)


BATCH: Final = 64
"""Traces that are erased in one commit."""
STAGE_DONE_WITHIN: Final = 300.0
"""Seconds for a stage to finish what waits for it; the erasure is tried again after that. More than the work that may
wait (`server.quotas.backlog`), as it would never be done otherwise while there is too much."""
STANDS_STILL: Final = 2.0
"""Seconds that the pipeline stands still for deletions at a time, and the erasure of one batch."""
MOST_UNNAMED: Final = 500
"""Newest open traces that are read even if they name neither the session nor the user. Their messages may continue the
session."""


def next_to_delete(
    deletions: DeletionStore, wanted: DeletionFilter, session_ids: Sequence[str]
) -> tuple[list[str], Sequence[str], bool]:
    """Return the stored traces and the sessions that a deletion erases next, and whether there may be more."""
    trace_ids = deletions.traces_of(wanted, session_ids, BATCH)
    if len(trace_ids) == BATCH:
        return trace_ids, (), True
    if wanted.before is None:
        return trace_ids, session_ids, False
    empty = deletions.empty_sessions(wanted.before, BATCH)
    return trace_ids, empty, bool(trace_ids) or len(empty) == BATCH


def next_older(deletions: DeletionStore, before: int) -> tuple[list[str], Sequence[str], bool]:
    """Return the traces and sessions that are erased next for their age, and whether there may be more. Sessions go
    last: those whose traces have gone before go with them."""
    trace_ids = deletions.oldest_traces(before, BATCH)
    empty = [] if trace_ids else deletions.empty_sessions(before, BATCH)
    return trace_ids, empty, bool(trace_ids) or len(empty) == BATCH


@dataclass(frozen=True, slots=True)
class PipelineErasure:
    """Erases traces from every stage and file, while the pipeline stands still for a moment.

    The assembly waits, so that nothing new sets out. Then live detection, and after it the evaluation, finish what had
    set out before. So nothing erased comes back from a queue.
    """

    storage: Storage[RequestFile]
    assembly: AssemblyParts
    loops: LoopStage
    evaluation: EvaluationParts
    feed: Feed
    telemetry: Telemetry
    work: WorkAccount
    clock: Clock

    def erase(self, deletions: Sequence[DoomedTraces]) -> Collection[str]:
        more = {deletion.deletion_id for deletion in deletions}

        def erase() -> list[str]:
            until = self.clock.monotonic() + STANDS_STILL
            erased: list[str] = []
            for deletion_id, wanted, session_ids in deletions:
                trace_ids, sessions, has_more = next_to_delete(self._deletions, wanted, session_ids)
                if len(trace_ids) < BATCH:
                    trace_ids += self._open(wanted, {*session_ids})
                self._erase(trace_ids, sessions, deletion_id)
                erased += trace_ids
                if not has_more:
                    more.discard(deletion_id)
                if self.clock.monotonic() >= until:
                    break
            return erased

        self._standing_still(erase)
        return more

    def erase_older(self, before: int) -> bool:
        trace_ids, empty, more = next_older(self._deletions, before)
        if not trace_ids and not empty:
            return False

        def erase() -> list[str]:
            self._erase(trace_ids, empty)
            return trace_ids

        self._standing_still(erase)
        return more

    def erase_from_log(self, deletion_id: str, start: int) -> tuple[int | None, Mapping[str, int]]:
        last = self._deletions.last_erasure(deletion_id)
        if last is None:
            return None, {}
        with self.work.reserve(ERASING * TOGETHER):
            return erase_page(self.storage.requests, start, last, partial(self._deletions.to_erase, deletion_id))

    def mark_erased(self, deletion_id: str) -> None:
        self._deletions.mark_erased(deletion_id)

    def trim_log(self, received_before: int) -> bool:
        return self.storage.requests.trim(self.storage.store.checkpoint(), received_before, BATCH) > 0

    @property
    def _deletions(self) -> DeletionStore:
        return self.storage.store.deletions

    def _standing_still(self, erase: Callable[[], Sequence[str]]) -> None:
        """Erase on the evaluation's thread, while the assembly waits for it. `erase` returns the erased traces."""

        def on_assembly() -> None:
            self.loops.forget(()).wait(STAGE_DONE_WITHIN)
            errand = Errand(erase)
            self.evaluation.inbox.run_errand(errand)
            trace_ids = errand.wait(STAGE_DONE_WITHIN)
            self.assembly.assembler.forget(trace_ids)
            self.loops.forget(trace_ids).wait(STAGE_DONE_WITHIN)

        waiting = Errand(on_assembly)
        self.assembly.stage.run_errand(waiting)
        waiting.wait(STAGE_DONE_WITHIN)

    def _erase(self, trace_ids: Sequence[str], session_ids: Sequence[str], deletion_id: str = "") -> None:
        last = self.assembly.assembler.last_offset
        self._deletions.erase(trace_ids, session_ids, deletion_id, last)
        self.storage.store.note_write()
        self.evaluation.core.forget(trace_ids, session_ids)
        self.evaluation.judge.forget({*trace_ids, *session_ids})
        self.feed.forget(trace_ids)
        self.telemetry.count(Counted.FORGOTTEN, len(trace_ids), "deletion" if deletion_id else "outcomes")

    def _open(self, wanted: DeletionFilter, session_ids: Collection[str]) -> list[str]:
        """Return the open traces that a deletion covers."""
        traces = self.assembly.assembler.newest(self.assembly.assembler.open_traces)
        if wanted.before is not None:
            return [trace.trace_id for trace in traces if trace.received_at < wanted.before]
        names = [name.encode() for name in (*session_ids, wanted.user_id) if name is not None]
        unnamed = {trace.trace_id for trace in traces[-MOST_UNNAMED:]}
        candidates = (trace for trace in traces if trace.trace_id in unnamed or _holds(trace, names))
        return [candidate.trace_id for candidate in candidates if self._is_of(candidate, wanted, session_ids)]

    def _is_of(self, assembled: AssembledTrace, wanted: DeletionFilter, session_ids: Collection[str]) -> bool:
        trace = self.evaluation.core.reader.read(assembled)
        if wanted.user_id is not None and trace.user_id == storable(wanted.user_id):
            return True
        session_id = self.evaluation.core.session_of(trace, assembled.revision)
        return session_id in session_ids or assembled.trace_id in session_ids


def _holds(assembled: AssembledTrace, names: Sequence[bytes]) -> bool:
    texts = [text for raw, origin in (*assembled.spans, *assembled.logs) for text in (raw, origin.resource)]
    return any(name in text for name in names for text in texts)


logger = logging.getLogger(__name__)
