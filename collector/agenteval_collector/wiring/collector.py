"""The composition root: the way of a span, from its end to its start. Each part is given the one it hands on to.

receiver -> log -> assembly -> evaluation -> store, emission
                      |         |      ^
                      v         v      |
                    loops      judge --+
"""

import logging
from collections.abc import Mapping

from agenteval_collector.api.ports import Reports
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.service import EvaluationService
from agenteval_collector.assembly import AssemblyStage, Progress
from agenteval_collector.config import Settings
from agenteval_collector.evaluation import EvaluationInbox, EvaluationStage, Running
from agenteval_collector.findings.loops import Announcer, LiveLoops, LoopStage, OpenSpans
from agenteval_collector.judge.queue.stage import JudgeStage
from agenteval_collector.log import RequestLog
from agenteval_collector.receiver.ingest import Ingest
from agenteval_collector.receiver.validity import Limits
from agenteval_collector.reliability import Regressions
from agenteval_collector.runtime.clock import Clock, SystemClock
from agenteval_collector.wiring.assembly import make_assembler
from agenteval_collector.wiring.emission import (
    make_fanout,
    make_feed,
    make_output,
    tell_what_the_last_process_could_not,
)
from agenteval_collector.wiring.judge import (
    NoJudgeStage,
    canary_loader,
    judge_models,
    make_canaries,
    make_judge_stage,
    make_judging,
    trace_loader,
)
from agenteval_collector.wiring.reports import StoredReports
from agenteval_collector.wiring.scoring import EvaluationCore, reliability_reports, session_naming
from agenteval_collector.wiring.servers import (
    WATCH_THREADS,
    GrpcServer,
    Health,
    HttpServers,
    Servers,
    refuse_open_doors,
)
from agenteval_collector.wiring.storage import Storage

logger = logging.getLogger(__name__)


class Collector:
    """Everything, wired; nothing runs before `start`, and `shutdown` stops it source first."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        """Raises ConfigError where the settings are not safe, PermanentError where the data is not ours, and OSError
        where the data folder cannot be used."""
        refuse_open_doors(settings.server)
        self._settings = settings
        self._clock = clock or SystemClock()
        self.storage = Storage(settings, self._clock)
        try:
            self._build_emission()
            self._build_evaluation()
            self._build_assembly()
            self._build_queries()
            self._build_doors()
            self._show_levels()
        except BaseException:
            self.storage.shutdown()
            raise

    def _build_emission(self) -> None:
        """Make everything that hears of commits, and live detection, which tells of findings without one."""
        store, clock = self.storage.store, self._clock
        self.output = make_output(self._settings, store)
        self._telemetry = self.output.collector
        self.open_spans = OpenSpans(clock, self._telemetry)
        live = LiveLoops(self._settings.loops.rule_book, session_naming(self._settings), clock)
        self._feed = make_feed(self.output, store, live, self.open_spans, clock)
        self._emission = make_fanout(self.output, self._feed)
        self._announcer = Announcer(store.findings, self._settings.findings.apply, self._emission, clock)
        self.loops = LoopStage(live, self._announcer, self.open_spans, self._telemetry)

    def _build_evaluation(self) -> None:
        """Make the evaluation, and the judge behind it, which hands its judgements back to the evaluation's inbox."""
        settings, store, clock = self._settings, self.storage.store, self._clock
        self._core = EvaluationCore(
            settings, store, clock, self._telemetry, make_judging(settings, store, self._telemetry), self.storage
        )
        self._inbox = EvaluationInbox()
        self._load = trace_loader(self.storage, store.turns, self._core.read)
        self._canaries = make_canaries(settings, store, self._load, self._inbox, clock)
        self.judge = self._make_judge() if settings.judge.on else NoJudgeStage()
        self._progress = Progress(self.open_spans)
        self.evaluation = EvaluationStage(
            self._core.evaluation,
            self._core.sessions,
            store,
            inbox=self._inbox,
            judge=self.judge,
            progress=self._progress,
            emission=self._emission,
            clock=clock,
        )

    def _make_judge(self) -> JudgeStage:
        settings, storage = self._settings, self.storage
        instruments = self.output.judge(judge_models(settings))
        judge = make_judge_stage(
            settings,
            storage.store.ledger,
            self._clock,
            instruments,
            load=canary_loader(storage.store, self._load),
            evaluation=self._canaries,
            capacity=settings.judge.backlog,
            rechecks=self._canaries.due,
        )
        instruments.observe_queue(judge)
        instruments.observe_drift(lambda: self._canaries.drifts)
        return judge

    def _build_assembly(self) -> None:
        """Make the assembly, the log in front of it, and what the receiver hands to the log."""
        settings, storage, clock, telemetry = self._settings, self.storage, self._clock, self._telemetry
        self.assembler = make_assembler(settings.assembly, clock, telemetry, storage, self.loops, self.open_spans)
        self.assembly = AssemblyStage(
            self.assembler,
            log=storage.requests,
            evaluation=self._inbox,
            progress=self._progress,
            store=storage.store,
            open_spans=self.open_spans,
            clock=clock,
            telemetry=telemetry,
            max_pending_bytes=settings.log.max_pending_bytes,
            retention=settings.log.retention,
        )
        self.log = RequestLog(storage.requests, clock, self.assembly, max_pending_bytes=settings.log.max_pending_bytes)
        limits = Limits(request=settings.server.max_request_bytes, span=settings.server.max_span_bytes)
        self._ingest = Ingest(self.log, self.assembly, storage.store, limits, telemetry)

    def _build_queries(self) -> None:
        """Make the queries and the reports from outside."""
        store, clock = self.storage.store, self._clock
        self._reliability = reliability_reports(self._settings, store, clock)
        running = Running(self.assembler, self.open_spans, self._core.read)
        self.queries = Queries(
            store,
            clock,
            running=running,
            judge=self.judge,
            drifts=lambda: self._canaries.drifts,
            idle=self._settings.session.idle,
            reliability=self._reliability,
        )
        self.reports: Reports = StoredReports(
            store, self._inbox, self.open_spans, self._announcer, judged=self._settings.judge.on
        )

    def _build_doors(self) -> None:
        """Make the ports, and the health of everything behind them."""
        config = self._settings.server
        service = EvaluationService(self.queries, self.reports, self._feed, max_watchers=WATCH_THREADS)
        grpc, http = GrpcServer(config, self._ingest, service), HttpServers(config)
        self._health = Health(self.log, self.assembly, self.evaluation, self.loops, self.judge, grpc, http)
        self._servers = Servers(
            config=config,
            grpc=grpc,
            http=http,
            ingest=self._ingest,
            queries=self.queries,
            reports=self.reports,
            output=self.output,
            health=self._health,
            clock=self._clock,
        )

    def _show_levels(self) -> None:
        """Register the gauges."""
        self.output.evaluations.observe_sessions(self._core.live)
        self.output.observe_problems(self.queries.problem_counts)
        versions = self.output.versions
        versions.observe_reliability(self._reliability.figures)
        versions.observe_regressions(Regressions(self.storage.store.versions, self._clock).figures)
        versions.observe_pass_rates(self.queries.pass_rates.newest)
        self._telemetry.observe_assembly(self.assembler)
        queues = (self.log, self.loops, self.assembly, self.evaluation)
        self._telemetry.observe_queues({each.name: each for each in queues})

    def start(self) -> Mapping[str, str]:
        """Take up what the last process left, then open the ports; return their addresses by name (grpc, http, web)."""
        tell_what_the_last_process_could_not(self.output, self._feed, self.storage.store, self._clock)
        for component in (self.judge, self.evaluation, self.loops, self.assembly, self.log):
            component.start()
        addresses = self._servers.start()
        logger.info("listening: %s", ", ".join(f"{name} on {address}" for name, address in addresses.items()))
        return addresses

    @property
    def ready(self) -> bool:
        """True while every port accepts and every stage can do its work."""
        return self._health.sentence() is None

    def shutdown(self) -> None:
        """Answer what was begun, commit and score what is complete, push what waits; safe twice, within 20 s."""
        if self.storage.closed:
            return
        self._feed.close()
        self._servers.shutdown(2.0)
        self.log.shutdown(2.0)
        self.assembly.shutdown(3.0)
        self.loops.shutdown(2.0)
        self.judge.shutdown(2.0)
        self.evaluation.shutdown(3.0)
        self.output.shutdown(3.0)
        self.storage.shutdown()
