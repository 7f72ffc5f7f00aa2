"""The pipeline of one tenant: the way of a span, from its end to its start. Each part is given the one it hands on to.

receiver -> log -> assembly -> evaluation -> store, emission
                      |         |      ^
                      v         v      |
                    loops      judge --+
"""

import uuid

from agenteval_collector.api.ports import Reports
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.spans import SpanQueries
from agenteval_collector.assembly import AssemblyStage, Progress
from agenteval_collector.config import Settings
from agenteval_collector.emit.feed import MAX_ALARMS
from agenteval_collector.evaluation import EvaluationInbox, EvaluationStage, Running
from agenteval_collector.findings.loops import Announcer, LiveLoops, LoopStage, OpenSpans
from agenteval_collector.judge.queue.stage import JudgeStage
from agenteval_collector.log import RequestLog
from agenteval_collector.model.prices import Prices
from agenteval_collector.receiver.ingest import Ingest
from agenteval_collector.receiver.validity import Limits
from agenteval_collector.reliability import Regressions
from agenteval_collector.retention import Ages, RetentionStage
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.sessions import PastSessions
from agenteval_collector.wiring.assembly import make_assembler
from agenteval_collector.wiring.emission import make_fanout, make_feed, make_output
from agenteval_collector.wiring.erasing import PipelineErasure
from agenteval_collector.wiring.judge import (
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
from agenteval_collector.wiring.redaction import stored_redaction
from agenteval_collector.wiring.reports import StoredReports
from agenteval_collector.wiring.scoring import EvaluationCore, reliability_reports, session_naming
from agenteval_collector.wiring.storage import Storage

REMEMBERED_SESSIONS = 20_000
"""Newest sessions of the last runs with whose scores new ones are compared."""


class Pipeline:
    """Everything of one tenant behind the doors, wired; nothing runs before `start`, and `shutdown` stops it source
    first. Pipelines share nothing that remembers what a tenant sent."""

    def __init__(self, settings: Settings, clock: Clock, tenant: str, memory: MemoryGuard) -> None:
        """Raises ConfigError where the settings are not safe, PermanentError where the data is not ours, and OSError
        where the data folder cannot be used."""
        self._settings = settings
        self._clock = clock
        self._memory = memory
        self.storage = Storage(settings, clock, tenant)
        try:
            self._build_emission()
            self._build_evaluation()
            self._build_assembly()
            self._build_retention()
            self._build_queries()
            self._show_levels()
        except BaseException:
            self.storage.shutdown()
            raise

    def _build_emission(self) -> None:
        """Make everything that hears of commits, and live detection, which tells of findings without one."""
        store, clock = self.storage.store, self._clock
        self.output = make_output(self._settings, self.storage)
        self._telemetry = self.output.collector
        self.open_spans = OpenSpans(clock, self._telemetry)
        live = LiveLoops(self._settings.loops.rule_book, session_naming(self._settings), clock)
        self.feed = make_feed(self.output, store, live, self.open_spans, clock)
        self._past_sessions = PastSessions()
        self._emission = make_fanout(self.output, self.feed, self._past_sessions)
        self._announcer = Announcer(store.findings, self._settings.findings.apply, self._emission, clock)
        self.loops = LoopStage(live, self._announcer, self._telemetry)

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
        ledger = make_ledger(settings, storage.store.ledger, self._clock)
        judge = make_judge_stage(
            settings,
            ledger,
            self._clock,
            instruments,
            load=canary_loader(storage.store, self._load),
            evaluation=self._canaries,
            capacity=settings.judge.backlog,
            rechecks=self._canaries.due,
        )
        instruments.observe_stage(judge)
        instruments.observe_budget(ledger.levels)
        instruments.observe_drift(lambda: self._canaries.drifts)
        return judge

    def _build_assembly(self) -> None:
        """Make the assembly, the log in front of it, and what the receiver hands to the log."""
        settings, storage, clock, telemetry = self._settings, self.storage, self._clock, self._telemetry
        self.assembler = make_assembler(settings.assembly, clock, telemetry, storage, self.loops, self.open_spans)
        self.assembly = AssemblyStage(
            self.assembler,
            tenant=storage.tenant,
            log=storage.requests,
            evaluation=self._inbox,
            progress=self._progress,
            store=storage.store,
            open_spans=self.open_spans,
            clock=clock,
            telemetry=telemetry,
            memory=self._memory,
            max_pending_bytes=settings.log.max_pending_bytes,
            retention=min(settings.log.retention, settings.retention.content),
        )
        self.log = RequestLog(
            storage.requests,
            clock,
            self.assembly,
            tenant=storage.tenant,
            max_pending_bytes=settings.log.max_pending_bytes,
        )
        redaction = stored_redaction(settings, storage.folder)
        limits = Limits(request=settings.server.max_request_bytes, span=settings.server.max_span_bytes)
        self.ingest = Ingest(self.log, self.assembly, storage.store, limits, telemetry, self._memory, redaction)
        self._memory.watch(self.log, self.assembly, self.loops)

    def _build_retention(self) -> None:
        """Make the end of data, over everything that holds some."""
        storage, config = self.storage, self._settings.retention
        pipeline = PipelineErasure(
            storage,
            self._core,
            self.assembler,
            self.assembly,
            self.loops,
            self._inbox,
            self.judge,
            self.feed,
            self._telemetry,
        )
        self.retention = RetentionStage(
            storage.store.deletions,
            pipeline,
            (storage.store, storage.requests),
            Ages(content=config.content, outcomes=config.outcomes, max_bytes=config.max_bytes),
            self._clock,
            self._telemetry,
            lambda: uuid.uuid4().hex,
        )

    def _build_queries(self) -> None:
        """Make the queries and the reports from outside."""
        storage, clock = self.storage, self._clock
        store = storage.store
        self._reliability = reliability_reports(self._settings, store, clock)
        running = Running(self.assembler, self.open_spans, self._core.read)
        self.queries = Queries(
            store,
            clock,
            running=running,
            judge=self.judge,
            judge_model=self._settings.judge.model if self._settings.judge.on else None,
            drifts=lambda: self._canaries.drifts,
            idle=self._settings.session.idle,
            reliability=self._reliability,
            spans=SpanQueries(
                lambda trace_id: self.assembler.peek(trace_id) or storage.trace(trace_id),
                Prices(self._settings.prices).usd,
            ),
        )
        self.reports: Reports = StoredReports(
            store, self._inbox, self.open_spans, self._announcer, judge_check(self._settings.judge), self.retention
        )

    def _show_levels(self) -> None:
        """Register the gauges."""
        self.output.evaluations.observe_sessions(self._core.live, self._past_sessions)
        self.output.observe_problems(self.queries.problem_counts)
        versions = self.output.versions
        versions.observe_reliability(self._reliability.figures)
        versions.observe_regressions(Regressions(self.storage.store.versions, self._clock).figures)
        versions.observe_pass_rates(self.queries.pass_rates.newest)
        self._telemetry.observe_assembly(self.assembler)
        queues = (self.log, self.loops, self.assembly, self.evaluation)
        self._telemetry.observe_queues({each.name: each for each in queues})

    def start(self) -> None:
        """Take up what the last process left, then run."""
        store = self.storage.store
        self.retention.recover()
        self.feed.remember(store.findings.newest(MAX_ALARMS))
        self._past_sessions.remember(store.past_sessions.newest(REMEMBERED_SESSIONS))
        for component in (self.judge, self.evaluation, self.loops, self.assembly, self.log, self.retention):
            component.start()

    @property
    def health(self) -> str | None:
        """None while every stage can do its work, else why not."""
        parts = (self.log, self.assembly, self.evaluation, self.loops, self.judge, self.retention)
        return "; ".join(trouble for part in parts if (trouble := part.health) is not None) or None

    def shutdown(self) -> None:
        """Commit and score what is complete, push what waits; safe twice, within 16 s. The doors are closed before."""
        if self.storage.closed:
            return
        self.retention.shutdown(2.0)
        self.log.shutdown(2.0)
        self.assembly.shutdown(3.0)
        self.loops.shutdown(2.0)
        self.judge.shutdown(2.0)
        self.evaluation.shutdown(3.0)
        self.output.shutdown(3.0)
        self.storage.shutdown()
