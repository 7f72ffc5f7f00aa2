"""The composition root: the way of a span, from top to bottom.

receiver -> log -> assembly -> evaluation -> store -> emit
                       |        |       ^ |  ^         ^
                       |        |       | judge        |
                       |        conversations,         |
                       |        findings, sessions     |
                       +-> loops ----------------------+
"""

import fcntl
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO

from agenteval_collector.api.ports import Reports
from agenteval_collector.api.security import is_loopback
from agenteval_collector.api.service import EvaluationService
from agenteval_collector.assembly import Assembler, AssemblyStage, KnownTrace, SenderRules, Senders, Waits, reassemble
from agenteval_collector.config import NO_JUDGE, AssemblyConfig, ConfigError, Settings
from agenteval_collector.emit.alarms import MAX_ALARMS
from agenteval_collector.emit.feed import Feed
from agenteval_collector.emit.news import Emission
from agenteval_collector.emit.participants import Participants
from agenteval_collector.emit.push import PushTarget
from agenteval_collector.emit.telemetry import TelemetryOutput
from agenteval_collector.evaluation import EvaluationStage
from agenteval_collector.evaluation.running import RunningTraces, completed
from agenteval_collector.findings.loops import Announcer, LiveLoops, LoopStage, OpenSpans
from agenteval_collector.judge.stage import JudgeStage
from agenteval_collector.log import RequestLog
from agenteval_collector.model.assembled import AssembledTrace, Death
from agenteval_collector.model.counters import Telemetry
from agenteval_collector.model.documents import Document
from agenteval_collector.model.judging import JudgeJob
from agenteval_collector.model.rendering import trace_document
from agenteval_collector.model.reports import Label, Rejudging, RunReport
from agenteval_collector.model.running import StartsReport
from agenteval_collector.model.telemetry import Arrival, LoggedRequest
from agenteval_collector.receiver.ingest import Ingest
from agenteval_collector.receiver.validity import Limits
from agenteval_collector.runtime.clock import Clock, SystemClock
from agenteval_collector.runtime.errors import InvalidRequest, Unavailable
from agenteval_collector.stores import TENANT, Store, StoreQueries
from agenteval_collector.stores.findings import ExportedKey
from agenteval_collector.web.app import make_app
from agenteval_collector.wiring.judge import judge_models, make_judge_stage, make_judging, trace_loader
from agenteval_collector.wiring.scoring import EvaluationCore, reliability_reports, session_naming
from agenteval_collector.wiring.servers import WATCH_THREADS, make_servers, refuse_open_doors, split_address

logger = logging.getLogger(__name__)

MOST_AGAIN = 500
"""Traces that are judged again by one call."""
AGAIN_WITHIN = 8.0
"""Seconds that a call to judge again waits for the evaluation."""
EXPORTED_AGAIN = 24 * 3600 * 1_000_000_000
"""Nanoseconds for which a finding's event that has not left is kept for the next start."""


class Collector:
    """Everything, wired; nothing runs before `start`, and `shutdown` stops it source first."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        """Raises ConfigError where the settings are not safe, PermanentError where the data is not ours, and OSError
        where the data folder cannot be used."""
        refuse_open_doors(settings.server)
        self._lock = _own(settings.data_dir)
        try:
            self._wire(settings, clock or SystemClock())
        except BaseException:
            self._lock.close()
            raise

    def _wire(self, settings: Settings, clock: Clock) -> None:
        self._clock = clock
        # Metrics, events and the feed.
        self.output = TelemetryOutput(
            version=version("otel-agenteval"),
            instance_id=str(uuid.uuid4()),
            push=_push_target(settings),
            exported=self._exported,
        )
        telemetry = self.output.collector
        feed = Feed(telemetry, self._processes_in, clock, watchers=WATCH_THREADS)
        emission = self._emission(feed)

        # From the store backwards to the receiver.
        self.store = Store(settings.data_dir / "agenteval.db", clock, retention=settings.log.retention)
        core = EvaluationCore(settings, self.store, clock, telemetry, make_judging(settings, self.store), self._again)
        self._read = core.read
        announcer = Announcer(self.store.findings, settings.findings.apply, emission, clock)
        self.open_spans = OpenSpans(clock, lost=lambda spans: telemetry.dropped("open_spans", spans))
        live = LiveLoops(settings.loops.rule_book, session_naming(settings), clock)
        self._participants = Participants(self.store.processes_in, live.processes_in, self.open_spans.processes_in)
        self.loops = LoopStage(
            live,
            announcer.announce,
            announcer.count_overdue,
            self.open_spans.arrived,
            lost=lambda spans: telemetry.dropped("loops", spans),
        )
        self.evaluation = EvaluationStage(
            core.evaluation,
            core.sessions,
            self.store,
            emission,
            self._scored,
            self._refer,
            lambda: self.judge.room if self.judge is not None else 0,
        )
        self.log = RequestLog(
            settings.data_dir / "log.db", clock, self._deliver, max_pending_bytes=settings.log.max_pending_bytes
        )
        self.judge = self._make_judge(settings, clock) if settings.judge.on else None
        self.assembler = make_assembler(
            settings,
            clock,
            telemetry,
            self.store,
            self.log,
            self.loops.arrived,
            self.open_spans.goes_on,
            self.open_spans.death,
        )
        self.assembly = AssemblyStage(
            self.assembler,
            log=self.log,
            evaluate=self.evaluation.put,
            save_checkpoint=self.store.save_checkpoint,
            clock=clock,
            telemetry=telemetry,
            max_pending_bytes=settings.log.max_pending_bytes,
            retention=settings.log.retention,
            died=self.open_spans.died,
            save_habits=self.store.habits.save,
        )
        limits = Limits(request=settings.server.max_request_bytes, span=settings.server.max_span_bytes)
        ingest = Ingest(self.log, self.assembly.admit, limits, telemetry)

        # Queries and reports from outside.
        reliability = reliability_reports(settings, self.store, clock)
        self.queries = StoreQueries(
            self.store.engine,
            clock,
            running=self._running,
            running_traces=RunningTraces(self.assembler.newest, core.read, self.open_spans.running),
            open_spans=lambda trace_id: (self.open_spans.of_trace(trace_id), self.open_spans.stopped(trace_id)),
            judge_trouble=lambda: self.judge.trouble if self.judge is not None else NO_JUDGE,
            idle=settings.session.idle,
            reliability=reliability,
        )
        self.reports: Reports = _Reports(
            self.store, self.evaluation, self.open_spans, announcer, judged=self.judge is not None
        )
        self._feed = feed
        self._servers = make_servers(
            settings.server,
            ingest,
            EvaluationService(self.queries, self.reports, feed, max_watchers=WATCH_THREADS),
            lambda grpc_address: make_app(
                self.queries,
                metrics=self.output.render,
                ready=lambda: self.ready,
                keys=[key.get_secret_value() for key in settings.server.keys],
                loopback=is_loopback(split_address(settings.server.web_address)[0]),
                clock=clock,
                grpc_endpoint=f"http://{grpc_address}",
            ),
        )

        self.output.evaluations.observe_sessions(core.live)
        self.output.observe_reliability(reliability)
        telemetry.observe_open_traces(lambda: self.assembler.open_traces)
        telemetry.observe_log_lag(self.assembler.lag)
        telemetry.observe_queue("log", lambda: self.log.waiting)
        telemetry.observe_queue("loops", lambda: self.loops.waiting)
        telemetry.observe_queue("assembly", lambda: self.assembly.waiting)
        telemetry.observe_queue("evaluation", lambda: self.evaluation.waiting)

    def start(self) -> Mapping[str, str]:
        """Take up what the last run left, then open the ports; their addresses by name (grpc, http, web)."""
        if self.judge is not None:
            self.judge.start()
        if self.output.events is not None:
            # Events of findings that the last run counted and could not export any more.
            self.output.events.count(self.store.findings.unexported(self._clock.now() - EXPORTED_AGAIN))
        # Findings that the last run could not tell any more.
        self._feed.remember(self.store.findings.newest(MAX_ALARMS))
        self.evaluation.start(pending_before=self._clock.now() if self.judge is not None else None)
        self.loops.start()
        self.assembly.start(self.store.checkpoint())
        self.log.start()
        addresses = self._servers.start()
        logger.info("listening: %s", ", ".join(f"{name} on {address}" for name, address in addresses.items()))
        return addresses

    @property
    def ready(self) -> bool:
        """Whether every port accepts and every stage works."""
        alive = self.log.alive and self.assembly.alive and self.evaluation.alive and self.loops.alive
        return self._servers.running and alive and (self.judge is None or self.judge.alive)

    def shutdown(self) -> None:
        """Answer what was begun, commit and score what is complete, push what waits; safe twice, within 20 s."""
        if self._lock.closed:
            return
        self._feed.close()
        self._servers.shutdown(2.0)
        self.log.shutdown(2.0)
        self.assembly.shutdown(3.0)
        self.loops.shutdown(2.0)
        if self.judge is not None:
            self.judge.shutdown(2.0)
        self.evaluation.shutdown(3.0)
        self.output.shutdown(3.0)
        self.store.shutdown()
        self._lock.close()

    def _emission(self, feed: Feed) -> Emission:
        """Everybody who is told of commits."""
        output = self.output
        evaluations = {"instruments": output.evaluations.accept, "feed": feed.accept}
        counted = {"findings": output.findings.count}
        if output.events is not None:
            evaluations["events"] = output.events.accept
            counted["events"] = output.events.count
        return Emission(
            output.collector,
            evaluations=evaluations,
            told={"feed": feed.tell},
            counted=counted,
            traces={"findings": output.findings.count_traces},
            sessions={"findings": output.findings.count_sessions},
        )

    # The feed is made before the store, the log and the evaluation before the stage that they report to.
    def _processes_in(self, session_id: str) -> frozenset[str]:
        return self._participants(session_id)

    def _again(self, trace_id: str) -> AssembledTrace | None:
        """A trace that was evaluated, from the requests that the store says it came in; None where some are gone."""
        known = self.store.known_traces([trace_id]).get(trace_id)
        if known is None:
            return None
        revision, offsets = known
        return reassemble(trace_id, TENANT, KnownTrace(revision=revision, offsets=offsets), self.log.get)

    def _exported(self, keys: Sequence[ExportedKey]) -> None:
        try:
            self.store.findings.exported(keys)
        except Unavailable as error:
            logger.warning("%d events of findings have left, and will again after a restart: %s", len(keys), error)

    def _deliver(self, request: LoggedRequest) -> None:
        self.assembly.deliver(request)

    def _scored(self, trace_id: str, revision: int) -> None:
        self.assembly.scored(trace_id, revision)
        self.open_spans.closed(trace_id)

    def _refer(self, job: JudgeJob) -> None:
        if self.judge is not None:
            self.judge.submit(job)

    def _make_judge(self, settings: Settings, clock: Clock) -> JudgeStage:
        instruments = self.output.judge(judge_models(settings))
        judge = make_judge_stage(
            settings,
            self.store.ledger,
            clock,
            instruments,
            load=trace_loader(self._again, self._read),
            deliver=self.evaluation.judged,
            capacity=settings.judge.backlog,
        )
        instruments.observe_queue(lambda: judge.waiting)
        return judge

    def _running(self, trace_id: str) -> Document | None:
        open_trace = self.assembler.peek(trace_id)
        begun = self.open_spans.begun(trace_id)
        if open_trace is None:
            return None if begun is None else trace_document(begun, revision=0, complete=False)
        arrived = self._read(open_trace)
        trace = arrived if begun is None else completed(arrived, begun)
        return trace_document(
            trace,
            revision=open_trace.revision,
            complete=False,
            death=open_trace.death,
            waits_for=open_trace.waits_for,
        )


class _Reports:
    """`Reports` on the store, the evaluation and what is known of running traces."""

    def __init__(
        self, store: Store, evaluation: EvaluationStage, open_spans: OpenSpans, announcer: Announcer, *, judged: bool
    ) -> None:
        """`judged`: there is a judge."""
        self._judged = judged
        self._store = store
        self._evaluation = evaluation
        self._open_spans = open_spans
        self._announcer = announcer

    def report_run(self, report: RunReport) -> None:
        self._store.report_run(report)

    def end_session(self, session_id: str) -> bool:
        known = self._store.end_session(session_id)
        self._evaluation.end_session(session_id, marked=known)
        return known

    def label(self, label: Label) -> None:
        self._store.label(label)

    def judge_again(self, trace_ids: Sequence[str], failed_since: int) -> Rejudging:
        if not self._judged:
            raise InvalidRequest(NO_JUDGE)
        limit = MOST_AGAIN + 1
        store = self._store
        found = store.unjudged(trace_ids, limit) if trace_ids else store.failed_since(failed_since, limit)
        try:
            count = self._evaluation.judge_again(found[:MOST_AGAIN]).result(AGAIN_WITHIN)
        except TimeoutError as error:
            raise Unavailable(f"not done within {AGAIN_WITHIN:g} s; it may still be") from error
        return Rejudging(traces=count, more=len(found) > count)

    def starts(self, report: StartsReport) -> None:
        found = self._open_spans.report(report)
        if found:
            self._announcer.announce(found)


def make_assembler(
    settings: Settings,
    clock: Clock,
    telemetry: Telemetry,
    store: Store,
    log: RequestLog,
    arrived: Callable[[Sequence[Arrival], int], None] = lambda _arrivals, _size: None,
    goes_on: Callable[[str], bool] = lambda _trace_id: False,
    death: Callable[[str], Death | None] = lambda _trace_id: None,
) -> Assembler:
    """The assembler over a store and a log, as the settings want it."""

    def known(trace_ids: Sequence[str]) -> dict[str, KnownTrace]:
        found = store.known_traces(trace_ids)
        return {key: KnownTrace(revision=revision, offsets=offsets) for key, (revision, offsets) in found.items()}

    assembly = settings.assembly
    return Assembler(
        clock,
        telemetry,
        known,
        log.get,
        arrived,
        goes_on,
        death,
        Senders(store.habits.load().items(), sender_rules(assembly)),
        waits=Waits(
            settle=assembly.settle,
            settle_logs=assembly.settle_logs,
            silence=assembly.silence,
            max_age=assembly.max_age,
        ),
        max_open_bytes=assembly.max_open_bytes,
        max_recent_bytes=assembly.max_recent_bytes,
    )


def sender_rules(assembly: AssemblyConfig) -> dict[str, SenderRules]:
    """The rules for senders in the settings, by service."""
    return {
        service: SenderRules(
            outermost=frozenset(given.outermost),
            remote_parents=None if given.remote_parents is None else given.remote_parents == "wait",
            logs=given.logs,
        )
        for service, given in assembly.senders.items()
    }


def _own(data_dir: Path) -> IO[str]:
    """The data folder for this process alone, until the returned file is closed."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (data_dir / "lock").open("w")
    except OSError as error:
        raise ConfigError(f"data_dir: {data_dir} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise ConfigError(f"data_dir: another collector uses {data_dir}; give this one another --data-dir") from error
    return lock


def _push_target(settings: Settings) -> PushTarget | None:
    export = settings.export
    if export.endpoint is None:
        return None
    try:
        return PushTarget(
            endpoint=export.endpoint,
            headers={name: value.get_secret_value() for name, value in export.headers.items()},
            ca_certificate=export.certificate.read_bytes() if export.certificate else None,
            interval=export.interval,
        )
    except (ValueError, OSError) as error:
        raise ConfigError(f"export: {error}") from error
