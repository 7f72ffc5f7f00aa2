"""Make the evaluation: findings, evaluators and sessions, as the settings want them."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Protocol

from agenteval_collector.config.evaluators import EmbeddingConfig, EvaluatorConfig, EvaluatorsConfig
from agenteval_collector.config.settings import Settings
from agenteval_collector.evaluation.conversations.linking import Conversations
from agenteval_collector.evaluation.conversations.running_turns import RunningTurns
from agenteval_collector.evaluation.embedding import EmbeddedEmbedder
from agenteval_collector.evaluation.evaluators import ALONE, TRUTH_EVALUATORS, TraceEvaluator
from agenteval_collector.evaluation.evaluators.enabled import trace_evaluators
from agenteval_collector.evaluation.findings.effort import AgentEfforts
from agenteval_collector.evaluation.findings.trace_loops import TraceLoops
from agenteval_collector.evaluation.inbox import EvaluationInbox
from agenteval_collector.evaluation.judged_reasons import JudgedReasons
from agenteval_collector.evaluation.ports import EarlierTraces, JobTaker, OwnSessions, ScoredTaker
from agenteval_collector.evaluation.preparing import Preparation
from agenteval_collector.evaluation.reading import DecodedTraces, TraceReader
from agenteval_collector.evaluation.reading_ahead import ReadingAhead
from agenteval_collector.evaluation.referrals import Referrals
from agenteval_collector.evaluation.run_trace import detectors
from agenteval_collector.evaluation.sessions.in_memory import Sessions
from agenteval_collector.evaluation.sessions.live_sessions import LiveSessions
from agenteval_collector.evaluation.sessions.session_evaluators import SessionEvaluators
from agenteval_collector.evaluation.stage import EvaluationStage
from agenteval_collector.evaluation.trace_evaluation import TraceEvaluation, TraceObservation, TraceOutcomes
from agenteval_collector.figures.counting import CountedRuns
from agenteval_collector.figures.version_reports import ReliabilityReports
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.counters import Telemetry
from agenteval_collector.model.news import NewsSink
from agenteval_collector.model.prices import TokenPrices
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.machine import MOST_WORKERS, cores, memory_limit
from agenteval_collector.runtime.work import SCORING, WorkAccount
from agenteval_collector.runtime.workers import Workers
from agenteval_collector.stores.quarantine import Quarantine
from agenteval_collector.stores.store import Store
from otel_agenteval.conventions.identity import SessionNaming
from otel_agenteval.conventions.input_cache import InputCache
from otel_agenteval.conventions.own_readings import NOTHING_OF_ITS_OWN, OwnReadings
from otel_agenteval.conventions.run_attributes import RunNaming
from otel_agenteval.metrics.signals import SIGNAL_NAMES
from otel_agenteval.model import GroundTruth, RunIdentity, Trace

EVALUATED_WITHIN = 1.0
"""Seconds that the scores of a trace take once it has settled. They take longer only if much waits."""
SESSIONS_SHARE = 16
"""The sessions of a tenant take at most 1/16 of the process's memory."""
INPUT_CACHE_SHARE = 32
"""Messages that are kept for the next trace of the same session take at most 1/32 of the process's memory."""


class TruthOfRuns(Protocol):
    """Ground truth of runs."""

    def truth(self, run: RunIdentity | None) -> GroundTruth:
        """Return the tools that the run should call, and its answer."""


class EvaluationCore:
    """Observes and scores traces and sessions, over a store. Owned by one thread; `live` and `reader` serve any."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock,
        telemetry: Telemetry,
        judging: Referrals,
        earlier: EarlierTraces,
        own_sessions: OwnSessions,
        plugged: Iterable[EntryPoint] | None = None,
        truth: TruthOfRuns | None = None,
    ) -> None:
        """Raises ConfigError for settings of evaluators that do not exist, and for entry points that are no evaluators.

        `earlier` has the traces that were evaluated before, `own_sessions` says which sessions are evaluated here.
        `plugged` are the entry points of users' evaluators, by default those of this environment. `truth` gives the
        ground truth of runs whose traces have none.
        """
        self._clock = clock
        configured, embedder = settings.evaluators, EmbeddedEmbedder()
        evaluators = _enabled(trace_evaluators(settings, plugged), configured)
        with_truth = _enabled((kind() for kind in TRUTH_EVALUATORS), configured)
        thresholds = {
            evaluator.name: evaluator_config(configured, evaluator.name).threshold
            for evaluator in (*evaluators, *with_truth)
        }
        self.live = LiveSessions(settings.session.idle)
        self.sessions = _sessions(settings, store, self.live, embedder, clock)
        self.reader = trace_reader(settings, truth)
        prices = TokenPrices(settings.prices)
        self.evaluation = TraceEvaluation(
            reader=replace(
                self.reader,
                kept=DecodedTraces(settings.assembly.max_recent_bytes),
                input_cache=InputCache(memory_of(settings) // INPUT_CACHE_SHARE),
            ),
            conversations=Conversations(store.conversations, is_alone=own_sessions.is_all),
            turns=RunningTurns(store.turns),
            sessions=self.sessions,
            outcomes=TraceOutcomes(evaluators, with_truth, judging, thresholds, embedder, clock),
            observation=TraceObservation(
                loops=TraceLoops(settings.loops.rule_book, settings.loops.repeated_answer.mode, clock),
                efforts=AgentEfforts(prices),
                settings=settings.findings,
                clock=clock,
            ),
            reasons=JudgedReasons(store.problems.shapes),
            prices=prices,
            safety=detectors(settings.reliability.safety),
            store=store,
            earlier=earlier,
            own_sessions=own_sessions,
            telemetry=telemetry,
            clock=clock,
        )

    def stage(
        self,
        inbox: EvaluationInbox,
        judge: JobTaker,
        *,
        scored: ScoredTaker,
        emit: NewsSink,
        work: WorkAccount | None = None,
        quarantine: Quarantine | None = None,
        ahead: ReadingAhead | None = None,
    ) -> EvaluationStage:
        """Make the stage that works off the `inbox`. `emit` gets the news of each commit, and `scored` hears which
        traces need no replay any more. It reserves memory from `work`, and reads nothing in `quarantine`. Under load
        it has traces read `ahead`."""
        return EvaluationStage(
            self.evaluation,
            inbox=inbox,
            judge=judge,
            scored=scored,
            emit=emit,
            clock=self._clock,
            work=work,
            quarantine=quarantine,
            ahead=ahead,
        )

    def session_of(self, trace: Trace, revision: int) -> str:
        """Return the session that the evaluation would put a trace in now."""
        # What the look-up notes for the commit is thrown away.
        return self.evaluation.conversations.place(trace, revision, Commit()).session_id

    def forget(self, trace_ids: Collection[str], session_ids: Collection[str]) -> None:
        """Forget what was deleted. Sessions that have lost traces are read again when they go on."""
        self.evaluation.forget(trace_ids)
        self.evaluation.reasons.forget()
        for session_id in session_ids:
            self.sessions.forget(session_id)
        self.sessions.forget_all()


def _sessions(
    settings: Settings, store: Store, live: LiveSessions, embedder: EmbeddedEmbedder, clock: Clock
) -> Sessions:
    configured = settings.evaluators
    return Sessions(
        store=store,
        live=live,
        evaluators=SessionEvaluators(
            _session_thresholds(configured), settings.session.min_coverage, _weightless(settings)
        ),
        embedder=embedder,
        clock=clock,
        weights=_weights(configured),
        hold=max(settings.assembly.settle, settings.assembly.settle_logs) + EVALUATED_WITHIN,
        max_bytes=memory_of(settings) // SESSIONS_SHARE,
    )


def _enabled(evaluators: Iterable[TraceEvaluator], configured: EvaluatorsConfig) -> list[TraceEvaluator]:
    return [evaluator for evaluator in evaluators if evaluator_config(configured, evaluator.name).enabled]


def worker_count(settings: Settings) -> int:
    """Return the number of worker processes; 1 if this process does all the work."""
    if (count := settings.server.workers) is not None:
        return count
    fit = memory_of(settings) // 2 // settings.server.worker_memory
    return max(1, min(cores(), MOST_WORKERS, fit))


def make_workers(settings: Settings, count: int) -> Workers | None:
    """Make `count` worker processes that prepare traces; None if this process does all the work."""
    if count == 1:
        return None
    beyond = SCORING * settings.server.max_trace_bytes
    return Workers(preparation(settings, count).begin, count, settings.server.worker_memory, beyond)


def preparation(settings: Settings, workers: int) -> Preparation:
    """Return what each of so many workers needs."""
    configured = settings.evaluators
    return Preparation(
        reader=trace_reader(settings),
        evaluators=_enabled((kind() for kind in ALONE), configured),
        with_truth=_enabled((kind() for kind in TRUTH_EVALUATORS), configured),
        safety=detectors(settings.reliability.safety),
        kept_bytes=settings.assembly.max_recent_bytes // workers,
        input_bytes=memory_of(settings) // INPUT_CACHE_SHARE // workers,
        logs=(settings.server.log_level, settings.server.log_format),
    )


def reliability_reports(settings: Settings, store: Store, clock: Clock) -> ReliabilityReports:
    """Make reports over the runs in the store, current at every call."""
    window = settings.reliability.window
    return ReliabilityReports(CountedRuns(store.runs, window), window, clock)


def memory_of(settings: Settings) -> int:
    """Return the bytes of memory that the process may take: what the settings say, else what the machine has."""
    return settings.server.memory_limit or memory_limit()


def trace_reader(settings: Settings, truth: TruthOfRuns | None = None) -> TraceReader:
    """Make a reader of traces as the settings want sessions and runs to be named, that any thread may use."""
    reliability = settings.reliability
    return TraceReader(
        session_naming(settings),
        RunNaming(
            task=reliability.task_attributes,
            run=reliability.run_attributes,
            success=reliability.success_attributes,
            confidence=reliability.confidence_attributes,
        ),
        truth=None if truth is None else truth.truth,
        own=_own_readings(settings),
    )


def _own_readings(settings: Settings) -> OwnReadings:
    readings = settings.readings
    if not readings.attributes and not readings.spans:
        return NOTHING_OF_ITS_OWN
    return OwnReadings(attributes=readings.attributes, spans=readings.spans)


def session_naming(settings: Settings) -> SessionNaming:
    """Return the attributes that name sessions, as the settings have them."""
    session = settings.session
    placeholders = frozenset(placeholder.lower() for placeholder in session.placeholders)
    of_readings = [key for key, fact in settings.readings.attributes.items() if fact == "session"]
    attributes = (*session.attributes, *of_readings)
    return SessionNaming(attributes=attributes, link_by=session.link_by, placeholders=placeholders)


def evaluator_config(configured: EvaluatorsConfig, name: str) -> EvaluatorConfig | EmbeddingConfig:
    """Return the settings of an evaluator; the defaults if it is one of a user's that has none."""
    config = getattr(configured, name, EvaluatorConfig())
    assert isinstance(config, EvaluatorConfig | EmbeddingConfig)
    return config


def _session_thresholds(configured: EvaluatorsConfig) -> dict[str, float]:
    """Return the thresholds of the session scores that are on."""
    configs = {"agent_reliability": configured.agent_reliability, "agent_consistency": configured.agent_consistency}
    return {name: config.threshold for name, config in configs.items() if config.enabled}


def _weights(configured: EvaluatorsConfig) -> dict[str, float]:
    """Return the weights of the signals in session scores; a signal that is off has none."""
    configs = {name: getattr(configured, name) for name in SIGNAL_NAMES}
    return {name: config.weight if config.enabled else 0.0 for name, config in configs.items()}


def _weightless(settings: Settings) -> dict[str, str]:
    """Return, by signal without a weight in session scores, a sentence that says why it has none."""
    evaluators = {}
    for name, weight in _weights(settings.evaluators).items():
        if not evaluator_config(settings.evaluators, name).enabled:
            evaluators[name] = f"{name} is off"
        elif not weight and name == "coherence":
            evaluators[name] = f"coherence has weight 0 with the {settings.embedder.type} embedder"
        elif not weight:
            evaluators[name] = f"{name} has weight 0"
    return evaluators
