"""The pipeline of one tenant: the way of a span, from its end to its start. Each part is given the one it hands on to.

receiver -> log -> assembly -> evaluation -> store, emission
                      |         |      ^
                      v         v      |
                    loops      judge --+
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from agenteval_collector.api.ports import Reports
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.spans import SpanQueries
from agenteval_collector.assembly import Assembler, AssemblyStage, Progress, Senders
from agenteval_collector.assembly.ports import AssemblyStore, TraceTaker
from agenteval_collector.config import AssemblyConfig, Settings
from agenteval_collector.emit.feed import MAX_ALARMS, Feed, Participants
from agenteval_collector.emit.ports import PastSessionCounts
from agenteval_collector.evaluation import (
    EvaluationInbox,
    EvaluationStage,
    EverySession,
    OwnSessions,
    RunningTraceReader,
    SessionKey,
)
from agenteval_collector.evaluation.ports import ScoredTaker
from agenteval_collector.findings.loops import Announcer, LiveLoops, LoopStage, OpenSpans
from agenteval_collector.judge.queue.stage import JudgeStage
from agenteval_collector.log import RequestFile, RequestLog
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.drift import Drift
from agenteval_collector.model.judge_jobs import JudgeJob
from agenteval_collector.model.news import NewsSink
from agenteval_collector.model.prices import TokenPrices
from agenteval_collector.model.running_traces import StartsReport
from agenteval_collector.model.sessions import SessionLevel
from agenteval_collector.receiver.ingest import Ingest
from agenteval_collector.receiver.ports import RequestAppender
from agenteval_collector.receiver.validity import Limits
from agenteval_collector.reliability import Regressions
from agenteval_collector.retention import RetentionStage
from agenteval_collector.retention.ports import Erasure, File
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import health_of
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.sessions import PastSessions
from agenteval_collector.wiring.emission import make_fanout, make_output
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
from agenteval_collector.wiring.ports import LogStage, Part, SessionTaker
from agenteval_collector.wiring.redaction import stored_redaction
from agenteval_collector.wiring.reports import StoredReports
from agenteval_collector.wiring.scoring import EvaluationCore, reliability_reports, session_naming
from agenteval_collector.wiring.storage import Storage, request_file

T = TypeVar("T")

STOPPED_WITHIN = 2.0
"""Seconds for a stage to finish what waits for it."""
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
        self.storage = self._open_storage(tenant)
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

    def _open_storage(self, tenant: str) -> Storage:
        def open_log(folder: Path) -> RequestFile:
            self.requests = request_file(folder)
            return self.requests

        return Storage(self._settings, self._clock, tenant, open_log=open_log)

    def _build_emission(self) -> None:
        """Make everything that hears of commits, and live detection, which tells of findings without one."""
        store, clock = self.storage.store, self._clock
        self.output = make_output(self._settings, self.storage, self._is_on_duty)
        self._telemetry = self.output.collector
        self.open_spans = self._make_open_spans()
        live = LiveLoops(self._settings.loops.rule_book, session_naming(self._settings), clock)
        self.feed, told = self._make_feed(live)
        self._past_sessions = PastSessions()
        self._emission = make_fanout(self.output, told, self._past_sessions)
        self._announcer = Announcer(store.findings, self._settings.findings.apply, self._emission, clock)
        self.loops = LoopStage(live, self._announcer, self._telemetry)

    def _make_open_spans(self) -> OpenSpans:
        """Make what knows the spans that have begun and not ended, as processes report them."""
        return OpenSpans(self._clock, self._telemetry)

    def _make_feed(self, live: LiveLoops) -> tuple[Feed, NewsSink]:
        """Make the feed of watchers, and return it with what is told for them: the feed itself."""
        feed = Feed(self._telemetry, Participants(self.storage.store, live, self.open_spans), self._clock)
        return feed, feed

    def _build_evaluation(self) -> None:
        """Make the evaluation, and the judge behind it, which hands its judgements back to the evaluation's inbox."""
        settings, store, clock = self._settings, self.storage.store, self._clock
        # First: who shares the evaluation with other processes puts into the inbox what it takes from their topic.
        self._inbox = EvaluationInbox(SessionKey(session_naming(settings)))
        self._progress = Progress(self.open_spans)
        own_sessions, scored = self._share_evaluation()
        self._core = EvaluationCore(
            settings,
            store,
            clock,
            self._telemetry,
            make_judging(settings, store, self._telemetry),
            self.storage,
            own_sessions,
        )
        self._load = trace_loader(self.storage, store.turns, self._core.read)
        self._canaries = make_canaries(settings, store, self._load, self._inbox.take_judgement, clock)
        self.judge = self._make_judge() if settings.judge.on else NoJudgeStage()
        self.evaluation = EvaluationStage(
            self._core.evaluation,
            self._core.sessions,
            store,
            inbox=self._inbox,
            judge=self.judge,
            progress=scored,
            emission=self._emission,
            clock=clock,
        )

    def _share_evaluation(self) -> tuple[OwnSessions, ScoredTaker]:
        """Return what says which sessions are evaluated here, all, and who hears of what is stored: the assembly."""
        return EverySession(), self._progress

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
            take=self._canaries.take_judgement,
            capacity=settings.judge.backlog,
            rechecks=self._rechecks,
            answers=storage.store.answers,
        )
        instruments.observe_stage(judge)
        instruments.observe_budget(self._on_duty(ledger.levels))
        instruments.observe_drift(self._on_duty(self._drifts))
        return judge

    def _rechecks(self) -> Sequence[JudgeJob]:
        """Return what the judge is to be asked again now."""
        return self._canaries.due()

    def _drifts(self) -> Sequence[Drift]:
        return self._canaries.drifts

    def _build_assembly(self) -> None:
        """Make the assembly, the log in front of it, and what the receiver hands to the log."""
        settings, storage, clock, telemetry = self._settings, self.storage, self._clock, self._telemetry
        self.assembler = self._make_assembler(settings.assembly)
        self.assembly = AssemblyStage(
            self.assembler,
            tenant=storage.tenant,
            log=storage.requests,
            evaluation=self._make_trace_taker(),
            progress=self._progress,
            store=self._make_assembly_store(),
            open_spans=self.open_spans,
            clock=clock,
            telemetry=telemetry,
            memory=self._memory,
            max_pending_bytes=settings.log.max_pending_bytes,
            retention=min(settings.log.retention, settings.retention.content),
        )
        self.log, taken = self._make_log()
        redaction = stored_redaction(settings, storage.folder)
        limits = Limits(request=settings.server.max_request_bytes, span=settings.server.max_span_bytes)
        self.ingest = Ingest(taken, self.assembly, storage.store, limits, telemetry, self._memory, redaction)
        self._memory.watch(self.log, self.assembly, self.loops)

    def _make_assembler(self, config: AssemblyConfig) -> Assembler:
        """Make the assembler over the store and the log, with what it learned of senders before."""
        store = self.storage.store
        return Assembler(
            clock=self._clock,
            telemetry=self._telemetry,
            store=store,
            log=self.storage.requests,
            loops=self.loops,
            open_spans=self.open_spans,
            senders=Senders(store.habits.load().items(), config.senders),
            config=config,
        )

    def _make_trace_taker(self) -> TraceTaker:
        """Return who takes complete traces from the assembly: the evaluation."""
        return self._inbox

    def _make_assembly_store(self) -> AssemblyStore:
        """Return what keeps how far the assembly has come, and what it has learned."""
        return self.storage.store

    def _make_log(self) -> tuple[LogStage, RequestAppender]:
        """Make the log: its stage, and what takes requests for it."""
        log = RequestLog(
            self.requests,
            self._clock,
            self.assembly,
            tenant=self.storage.tenant,
            max_pending_bytes=self._settings.log.max_pending_bytes,
        )
        return log, log

    def _build_retention(self) -> None:
        """Make the end of data, over everything that holds some."""
        self.retention = RetentionStage(
            self.storage.store.deletions,
            self._make_erasure(),
            self._files(),
            self._settings.retention,
            self._clock,
            self._telemetry,
            lambda: uuid.uuid4().hex,
            self._deletion_teller(),
            self._is_on_duty,
        )

    def _deletion_teller(self) -> Callable[[], None] | None:
        """Return what tells the process that deletes that there is something to delete; None: it is this one."""
        return None

    def _make_erasure(self) -> Erasure:
        return PipelineErasure(
            storage=self.storage,
            requests=self.requests,
            core=self._core,
            assembler=self.assembler,
            assembly=self.assembly,
            loops=self.loops,
            evaluation=self._inbox,
            judge=self.judge,
            feed=self.feed,
            telemetry=self._telemetry,
        )

    def _files(self) -> Sequence[File]:
        """Return what gives back the space of what was removed."""
        return self.storage.store, self.requests

    def _build_queries(self) -> None:
        """Make the queries and the reports from outside."""
        store, clock = self.storage.store, self._clock
        self._reliability = reliability_reports(self._settings, store, clock)
        running = RunningTraceReader(self.assembler, self.open_spans, self._core.read)
        self.queries = Queries(
            store,
            clock,
            running=running,
            judge=self.judge,
            judge_model=self._settings.judge.model if self._settings.judge.on else None,
            drifts=self._drifts,
            idle=self._settings.session.idle,
            reliability=self._reliability,
            spans=SpanQueries(self._trace, TokenPrices(self._settings.prices).usd),
        )
        self.reports: Reports = StoredReports(
            store=store,
            evaluation=self._make_session_taker(),
            starts=self._take_starts,
            judge=judge_check(self._settings.judge),
            retention=self.retention,
        )

    def _trace(self, trace_id: str) -> AssembledTrace | None:
        """Return the spans of a trace: as far as they have come while it goes on, then as they were scored."""
        return self.assembler.peek(trace_id) or self.storage.trace(trace_id)

    def _take_starts(self, report: StartsReport) -> None:
        """Take note of the spans that are open in a process, and tell what it has found on them."""
        if found := self.open_spans.take_starts(report):
            self._announcer.announce(found)

    def _make_session_taker(self) -> SessionTaker:
        """Return who hears what is reported of sessions: the evaluation."""
        return self._inbox

    def _show_levels(self) -> None:
        """Register the gauges."""
        self._telemetry.observe_duty(self._is_on_duty)
        self._telemetry.observe_assembly(self.assembler)
        queues = (self.log, self.loops, self.assembly, self.evaluation)
        self._telemetry.observe_queues({each.name: each for each in queues})
        levels, past = self._session_levels()
        self.output.evaluations.observe_sessions(self._on_duty(levels), past)
        self.output.findings.observe_problems(self._on_duty(self.queries.problem_counts))
        versions = self.output.versions
        versions.observe_reliability(self._on_duty(self._reliability.figures))
        versions.observe_regressions(self._on_duty(Regressions(self.storage.store.versions, self._clock).figures))
        versions.observe_pass_rates(self._on_duty(self.queries.pass_rates.newest))

    def _is_on_duty(self) -> bool:
        """Return whether this process, and no other one, does what one has to do for all. From any thread."""
        return True

    def _on_duty(self, read: Callable[[], Iterable[T]]) -> Callable[[], Sequence[T]]:
        """Make what reads something that is so for all: nothing where another process shows it. Shown twice, it would
        count twice."""
        return lambda: [*read()] if self._is_on_duty() else []

    def _session_levels(self) -> tuple[Callable[[], Iterable[SessionLevel]], PastSessionCounts]:
        """Return the sources of the levels of sessions: what is evaluated here."""
        return self._core.live.session_levels, self._past_sessions

    def start(self) -> None:
        """Take up what the last process left, then run."""
        store = self.storage.store
        self._recover()
        self.feed.remember(store.findings.newest(MAX_ALARMS))
        self._past_sessions.remember(store.past_sessions(REMEMBERED_SESSIONS))
        for component in reversed(self.parts):
            component.start()

    def _recover(self) -> None:
        self.retention.recover()

    @property
    def parts(self) -> Sequence[Part]:
        """The stages of this process, on the way of a span."""
        return self.retention, self.log, self.assembly, self.loops, self.evaluation, self.judge

    @property
    def health(self) -> str | None:
        """None while every stage can do its work, else why not."""
        return health_of(self.parts)

    def _shutdown_parts(self) -> None:
        """Stop each stage once all before it have; the evaluation last, as the judge hands it what it says."""
        for part in sorted(self.parts, key=lambda part: part is self.evaluation):
            part.shutdown(STOPPED_WITHIN)

    def shutdown(self) -> None:
        """Commit and score what is complete, push what waits; safe twice, within 16 s. The doors are closed before."""
        if self.storage.closed:
            return
        self._shutdown_parts()
        self.output.shutdown(3.0)
        self.storage.shutdown()
