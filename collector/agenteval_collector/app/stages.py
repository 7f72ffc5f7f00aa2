"""Make the stages that a pipeline has in one process as well as in a fleet, and what emits their news.

Each maker names what its stage needs.
"""

import logging
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final, TypeVar

from agenteval_collector.alarms.stage import AlarmStage
from agenteval_collector.app.judge import (
    NoJudgeStage,
    canary_loader,
    judge_check,
    judge_models,
    make_canaries,
    make_judge_stage,
    make_judging,
    make_ledger,
    trace_loader,
)
from agenteval_collector.app.scoring import EvaluationCore, reliability_reports, session_naming
from agenteval_collector.app.storage import Storage, stored_redaction
from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.ports import AssemblyStore, TraceTaker
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.assembly.stage import AssemblyStage, Progress
from agenteval_collector.config.settings import ProcessRole, Settings
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.emit.fanout import Fanout
from agenteval_collector.emit.notifications import Notifier
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.emit.ports import PastSessionCounts
from agenteval_collector.emit.target import PushTarget
from agenteval_collector.evaluation.inbox import EvaluationInbox
from agenteval_collector.evaluation.ports import OwnSessions, ScoredTaker
from agenteval_collector.evaluation.reading_ahead import ReadingAhead
from agenteval_collector.evaluation.session_key import SessionKey
from agenteval_collector.evaluation.sessions.past_sessions import PastSessions
from agenteval_collector.evaluation.stage import EvaluationStage
from agenteval_collector.figures.regressions import PRIMARY, Regressions
from agenteval_collector.ingest.ingest import Ingest
from agenteval_collector.ingest.ports import RequestAppender
from agenteval_collector.ingest.quotas import Quotas
from agenteval_collector.ingest.rejections import RejectionLog
from agenteval_collector.ingest.validity import Limits
from agenteval_collector.judge.canaries import Canaries
from agenteval_collector.judge.judgements import Load
from agenteval_collector.judge.queue.stage import JudgeStage
from agenteval_collector.judge.uncertain import UncertainAsking
from agenteval_collector.live.live_loops import LiveLoops
from agenteval_collector.live.open_spans import OpenSpans
from agenteval_collector.live.stage import Announcer, LoopStage
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.model.counters import Telemetry
from agenteval_collector.model.drift import Drift
from agenteval_collector.model.logged_requests import Requests
from agenteval_collector.model.news import NewsSink
from agenteval_collector.model.prices import TokenPrices
from agenteval_collector.model.running_traces import StartsReport
from agenteval_collector.model.sessions import SessionLevel
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.database_file import DatabaseFile
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.runtime.workers import Workers
from agenteval_collector.serve.api.ports import SessionTaker, StartsTaker
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.serve.api.reports import Reports
from agenteval_collector.serve.api.running_traces import RunningTraceReader
from agenteval_collector.serve.api.spans import SpanQueries
from agenteval_collector.serve.api.wire import MAX_LIMIT
from agenteval_collector.stores.quarantine import Quarantine
from agenteval_collector.stores.retention import RetentionStage
from agenteval_collector.stores.retention_ports import Erasure
from agenteval_collector.stores.store import Store

logger = logging.getLogger(__name__)

T = TypeVar("T")

GIB: Final = 1024**3
STOPPED_WITHIN: Final = 2.0
"""Seconds for a component to finish what waits for it."""


@dataclass(frozen=True, slots=True)
class Foundation:
    """The things that every stage of a tenant's pipeline needs.

    `is_on_duty` says whether this process is the one of several that shows the shared gauges, pushes events and
    deletes. `workers` prepare the traces of all tenants; None if this process does all the work. Safe from any thread.
    """

    settings: Settings
    clock: Clock
    memory: MemoryGuard
    storage: Storage[Requests]
    quarantine: Quarantine
    output: TelemetryOutput
    is_on_duty: Callable[[], bool]
    quotas: Quotas
    """Of the tenant: telemetry and reports count together."""
    workers: Workers | None = None

    @property
    def store(self) -> Store:
        return self.storage.store

    @property
    def telemetry(self) -> Telemetry:
        return self.output.own_work

    def on_duty(self, read: Callable[[], Iterable[T]]) -> Callable[[], Sequence[T]]:
        """Make a reader of shared gauges that returns nothing while another process shows them: shown twice, they would
        count twice."""
        return lambda: [*read()] if self.is_on_duty() else []


def make_live_loops(base: Foundation) -> LiveLoops:
    """Make the detectors that look for loops in traces that go on."""
    return LiveLoops(base.settings.loops.rule_book, session_naming(base.settings), base.clock)


@dataclass(frozen=True, slots=True)
class LiveFindings:
    """Finds failures in traces that go on: in spans as they arrive, and in the open spans that processes report."""

    open_spans: OpenSpans
    announcer: Announcer
    stage: LoopStage

    def take_starts(self, report: StartsReport) -> None:
        """Note the spans that are open in a process, and announce the findings that it reports on them."""
        if starts := self.open_spans.take_starts(report):
            self.announcer.announce(starts)


def make_live_findings(base: Foundation, live_loops: LiveLoops, open_spans: OpenSpans, emit: NewsSink) -> LiveFindings:
    """Make live detection, which tells of findings before their trace is complete."""
    announcer = Announcer(base.store.findings, base.settings.findings, emit, base.clock)
    return LiveFindings(open_spans, announcer, LoopStage(live_loops, announcer, base.telemetry))


@dataclass(frozen=True, slots=True)
class EvaluationParts:
    """The evaluation, the judge behind it, and the canaries that the judge is asked about again."""

    core: EvaluationCore
    inbox: EvaluationInbox
    stage: EvaluationStage
    judge: JudgeStage | NoJudgeStage
    canaries: Canaries

    @property
    def components(self) -> Sequence[Component]:
        """The evaluation, and the judge if there is one."""
        return (self.stage, self.judge) if isinstance(self.judge, JudgeStage) else (self.stage,)

    def drifts(self) -> Sequence[Drift]:
        """Return the drifts of the judge; none if there is no judge."""
        return self.canaries.stored_drifts() if isinstance(self.judge, JudgeStage) else ()


def make_inbox(settings: Settings) -> EvaluationInbox:
    """Make the inbox of the evaluation."""
    return EvaluationInbox(SessionKey(session_naming(settings)))


def make_evaluation(
    base: Foundation,
    inbox: EvaluationInbox,
    own_sessions: OwnSessions,
    *,
    emit: NewsSink,
    scored: ScoredTaker,
    asks_again: Callable[[], bool],
) -> EvaluationParts:
    """Make the evaluation of `own_sessions`. `emit` gets the news of each commit, and `scored` hears which traces need
    no replay any more.

    The judge hands its judgements back to the `inbox`. Canaries are asked about again while `asks_again` returns True.
    """
    settings, store, clock = base.settings, base.store, base.clock
    judging = make_judging(settings, store, base.telemetry)
    core = EvaluationCore(settings, store, clock, base.telemetry, judging, base.storage, own_sessions)
    work = base.memory.work
    load = trace_loader(base.storage, store, core.reader, work)
    # judge -> canaries -> inbox: canaries keep the judgements on their own traces and hand on all others.
    canaries = make_canaries(settings, store, load, inbox, clock, asks_again)
    judge = _judge_stage(base, load, canaries) if settings.judge.on else NoJudgeStage()
    quarantine, workers = base.quarantine, base.workers
    ahead = None if workers is None else ReadingAhead(workers, inbox.session_of, quarantine, work)
    stage = core.stage(inbox, judge, scored=scored, emit=emit, work=work, quarantine=quarantine, ahead=ahead)
    return EvaluationParts(core, inbox, stage, judge, canaries)


def _judge_stage(base: Foundation, load: Load, canaries: Canaries) -> JudgeStage:
    settings, store = base.settings, base.store
    instruments = base.output.judge(judge_models(settings))
    ledger = make_ledger(settings, store.ledger, base.clock)
    judge = make_judge_stage(
        settings,
        ledger,
        base.clock,
        instruments,
        load=canary_loader(store, load),
        taker=canaries,
        capacity=settings.judge.backlog,
        rechecks=canaries,
        answers=store.answers,
    )
    instruments.observe_stage(judge)
    instruments.observe_budget(base.on_duty(ledger.levels))
    instruments.observe_drift(base.on_duty(canaries.stored_drifts))
    return judge


@dataclass(frozen=True, slots=True)
class AssemblyParts:
    """The assembler, and the stage that owns it."""

    assembler: Assembler
    stage: AssemblyStage


def make_assembly(
    base: Foundation, live_findings: LiveFindings, *, traces: TraceTaker, progress: Progress, store: AssemblyStore
) -> AssemblyParts:
    """Make the assembly, with what was learned of senders before. It hands arriving spans to live detection, and
    complete traces to `traces`. `progress` says what is scored, and `store` keeps the checkpoint."""
    settings, storage, clock = base.settings, base.storage, base.clock
    assembler = Assembler(
        clock=clock,
        telemetry=base.telemetry,
        store=base.store,
        log=storage.requests,
        loops=live_findings.stage,
        open_spans=live_findings.open_spans,
        senders=Senders(base.store.habits.load().items(), settings.assembly.senders),
        config=settings.assembly,
        max_trace_bytes=settings.server.max_trace_bytes,
    )
    stage = AssemblyStage(
        assembler,
        tenant=storage.tenant,
        log=storage.requests,
        traces=traces,
        progress=progress,
        store=store,
        open_spans=live_findings.open_spans,
        clock=clock,
        telemetry=base.telemetry,
        memory=base.memory,
        max_pending_bytes=settings.log.max_pending_bytes,
        backlog=settings.server.quotas.backlog,
        retention=min(settings.log.retention, settings.retention.content),
        content_retention=settings.retention.content,
        quarantine=base.quarantine,
    )
    return AssemblyParts(assembler, stage)


def make_ingest(base: Foundation, log: RequestAppender, assembly: AssemblyStage) -> Ingest:
    """Make the ingest, to which the receivers hand requests: it checks them, and waits for the log."""
    settings, storage = base.settings, base.storage
    limits = Limits(request=settings.server.max_request_bytes, span=settings.server.max_span_bytes)
    redaction = stored_redaction(settings, storage.folder)
    return Ingest(
        log=log,
        admission=assembly,
        labels=storage.store,
        limits=limits,
        telemetry=base.telemetry,
        memory=base.memory,
        rejections=RejectionLog(base.clock.monotonic),
        quotas=base.quotas,
        redaction=redaction,
    )


def _new_id() -> str:
    return uuid.uuid4().hex


def half_of_the_disk(files: Iterable[DatabaseFile], folder: Path) -> int:
    """Return half of the bytes that the files may take: what they hold, and what is free beside them.

    So the bound is the same after a restart.
    """
    return (sum(file.used_bytes for file in files) + shutil.disk_usage(folder).free) // 2


def make_retention(
    base: Foundation, erasure: Erasure, files: Sequence[DatabaseFile], tell: Callable[[], None]
) -> RetentionStage:
    """Make the stage that deletes data wherever it is stored. `tell` tells other processes of a deletion."""
    ages = base.settings.retention
    if ages.max_bytes is None and base.settings.store.url is None and files:
        ages = ages.model_copy(update={"max_bytes": half_of_the_disk(files, base.storage.folder)})
        logger.info(
            "log and store take at most %.1f GiB, half of what is free at the start; retention.max_bytes sets another"
            " bound",
            (ages.max_bytes or 0) / GIB,
        )
    return RetentionStage(
        base.store.deletions,
        erasure,
        files,
        ages=ages,
        clock=base.clock,
        telemetry=base.telemetry,
        new_id=_new_id,
        tell=tell,
        is_on_duty=base.is_on_duty,
    )


def make_reports(base: Foundation, sessions: SessionTaker, starts: StartsTaker, retention: RetentionStage) -> Reports:
    """Make the reports of the API. Those on sessions go to `sessions`, those of open spans to `starts`."""
    return Reports(
        store=base.store,
        evaluation=sessions,
        open_spans=starts,
        judge=judge_check(base.settings.judge, base.clock),
        retention=retention,
        redaction=stored_redaction(base.settings, base.storage.folder),
        quotas=base.quotas,
    )


def make_queries(base: Foundation, assembler: Assembler, open_spans: OpenSpans, evaluation: EvaluationParts) -> Queries:
    """Make the queries of the API and the page, over stored and running traces."""
    settings, storage = base.settings, base.storage

    def trace(trace_id: str) -> AssembledTrace | None:
        # While it goes on, the spans that have come; afterwards those that were scored.
        return assembler.peek(trace_id) or storage.trace(trace_id)

    return Queries(
        base.store,
        base.clock,
        running=RunningTraceReader(assembler, open_spans, evaluation.core.reader, base.memory.work),
        judge=evaluation.judge,
        judge_model=settings.judge.model if settings.judge.on else None,
        drifts=evaluation.drifts,
        idle=settings.session.idle,
        reliability=reliability_reports(settings, base.store, base.clock),
        spans=SpanQueries(trace, TokenPrices(settings.prices).usd),
    )


def make_regressions(base: Foundation) -> Regressions:
    """Make the test whether versions are worse than those before them."""
    primary = base.settings.judge.primary
    return Regressions(base.store.versions, base.clock, PRIMARY if primary is None else (primary,))


def make_alarms(base: Foundation, regressions: Regressions) -> AlarmStage:
    """Make the stage that decides on alarms."""
    return AlarmStage(
        base.store.alarms,
        base.clock,
        objectives=base.settings.objectives,
        regressions=regressions,
        is_on_duty=base.is_on_duty,
    )


def make_uncertain_asking(base: Foundation, queries: Queries, reports: Reports) -> Sequence[UncertainAsking]:
    """Make the stage that asks the judge about what a guess is least certain of; none where all is judged."""
    config = base.settings.judge
    if not config.on or config.sample >= 1.0 or config.escalate <= 0.0:
        return ()
    rates, ask = queries.pass_rates, reports.judge_again
    return [
        UncertainAsking(
            lambda: rates.page(limit=MAX_LIMIT, cursor=None).items,
            lambda traces, sessions: ask(traces, sessions, 0),
            config.escalate,
            base.is_on_duty,
        )
    ]


def make_notifiers(base: Foundation) -> Sequence[Notifier]:
    """Make the stage that sends notifications; none if the settings name no place. Raises ConfigError if a place is
    unknown or the extra is not installed."""
    config = base.settings.notify
    if not config.urls:
        return ()
    try:
        # Imported here: Apprise is not installed, or not loaded, if nobody asks for it.
        from agenteval_collector.emit.apprise_courier import AppriseCourier  # noqa: PLC0415

        couriers = [AppriseCourier(url.get_secret_value()) for url in config.urls]
    except ImportError as error:
        raise ConfigError(f"notify.urls: {error}; install the extra `notify`") from error
    except ValueError as error:
        raise ConfigError(f"notify.urls: {error}") from error
    tenant = "" if base.storage.tenant == DEFAULT_TENANT else base.storage.tenant
    return [
        Notifier(
            base.store,
            couriers,
            base.clock,
            base.telemetry,
            config=config,
            tenant=tenant,
            is_on_duty=base.is_on_duty,
        )
    ]


def register_gauges(
    base: Foundation,
    assembly: AssemblyParts,
    queues: Sequence[Component],
    queries: Queries,
    regressions: Regressions,
    *,
    levels: Callable[[], Iterable[SessionLevel]],
    past: PastSessionCounts,
) -> None:
    """Register the gauges: of this process, and the shared ones. `levels` and `past` are those of sessions."""
    output, on_duty = base.output, base.on_duty
    output.own_work.observe_duty(base.is_on_duty)
    output.own_work.observe_assembly(assembly.assembler, assembly.stage)
    output.own_work.observe_quarantine(on_duty(queries.quarantine_counts))
    output.own_work.observe_queues({queue.name: queue for queue in queues})
    output.evaluations.observe_sessions(on_duty(levels), past)
    output.findings.observe_problems(on_duty(queries.problem_counts))
    output.versions.observe_reliability(on_duty(queries.version_reports.figures))
    output.alarms.observe_alarms(on_duty(queries.firing_alarms))
    output.alarms.observe_objectives(base.settings.objectives)
    output.versions.observe_regressions(on_duty(regressions.figures))
    output.versions.observe_pass_rates(on_duty(queries.pass_rates.newest))


def stop_in_turn(components: Iterable[Component], deadline: float) -> None:
    """Stop the components one after another. Each gets at most `STOPPED_WITHIN` seconds to finish, and none past the
    `deadline` (`time.monotonic`)."""
    for component in components:
        component.shutdown(min(STOPPED_WITHIN, max(0.0, deadline - time.monotonic())))


def make_output(settings: Settings, storage: Storage[Requests], is_on_duty: Callable[[], bool]) -> TelemetryOutput:
    """Make the instruments, and their push if one is set. Events leave while this process `is_on_duty`."""
    return TelemetryOutput(
        version=version("otel-agenteval"),
        instance_id=instance_id(settings.data_dir),
        tenant=storage.tenant,
        push=_push_target(settings),
        outbox=storage.store.outbox,
        is_on_duty=is_on_duty,
        max_series=settings.server.max_series,
    )


def make_emit(output: TelemetryOutput, watchers: NewsSink, past_sessions: PastSessions) -> Fanout:
    """Make what tells all sinks of commits. The `watchers` hear first, because a loop may still be stopped."""
    sinks: dict[str, NewsSink] = {
        "feed": watchers,
        "findings": output.findings,
        "agents": output.agents,
        "instruments": output.evaluations,
        "past sessions": past_sessions,
    }
    return Fanout(sinks, output.own_work)


def instance_id(data_dir: Path) -> str:
    """Return the id of this collector at a backend: the same after a restart, another one for another folder."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"agenteval://{socket.gethostname()}{data_dir.resolve()}"))


def _push_target(settings: Settings) -> PushTarget | None:
    export = settings.export
    if export.endpoint is None:
        return None
    try:
        return PushTarget(
            endpoint=export.endpoint,
            protocol=export.protocol,
            headers={name: value.get_secret_value() for name, value in export.headers.items()},
            certificate=export.certificate,
            # One process pushes events, and only those that serve can have the duty.
            events=export.events and settings.role.does(ProcessRole.SERVE),
            interval=export.interval,
        )
    except (ValueError, OSError) as error:
        raise ConfigError(f"export: {error}") from error
