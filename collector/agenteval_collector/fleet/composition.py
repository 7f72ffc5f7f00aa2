"""Connect a tenant's pipeline in one of several processes, which share the work by Kafka and the store by PostgreSQL.
Read `_connect` from its end to its start to follow a span, as in `one_process.py`.

receive: receiver -> topic of spans, by trace
assemble: topic of spans -> assembly -> topic of traces, by session
             |-> loops in open traces -> store -> emit
evaluate: topic of traces -> evaluation, judge -> store -> emit
serve: store -> page, API; one of them: gauges of all, events, deletions

A process does one of these, or all. Each is built in every process, and runs if it is that process's role.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from agenteval_collector.app import stages
from agenteval_collector.app.pipeline import REMEMBERED_SESSIONS, Pipeline
from agenteval_collector.app.scoring import session_naming
from agenteval_collector.app.stages import make_emit, make_output
from agenteval_collector.app.storage import Storage, StoreWatch
from agenteval_collector.assembly.stage import Progress
from agenteval_collector.config.settings import ProcessRole, Settings
from agenteval_collector.emit.feed import Feed, Participants
from agenteval_collector.evaluation.session_key import SessionKey
from agenteval_collector.evaluation.sessions.past_sessions import PastSessions, StoredSessions
from agenteval_collector.fleet.cluster import Cluster
from agenteval_collector.fleet.deleted_traces import DeletedTraces
from agenteval_collector.fleet.erasing import FleetErasure
from agenteval_collector.fleet.fleet_news import FleetNewsHandler
from agenteval_collector.fleet.news_topic import HeardProcesses, NewsReader, NewsTopic
from agenteval_collector.fleet.offsets import Offsets
from agenteval_collector.fleet.partitions import PartitionSessions, PartitionSpans
from agenteval_collector.fleet.producer import KafkaProducer
from agenteval_collector.fleet.span_topic import KafkaLog, RequestTopic, SpanMessageHandler, SpanProgress
from agenteval_collector.fleet.topic_reader import TopicReader
from agenteval_collector.fleet.trace_messages import SessionTopic, TraceMessageHandler
from agenteval_collector.fleet.trace_topic import TraceTopic
from agenteval_collector.ingest.ingest import Ingest
from agenteval_collector.ingest.quotas import Quotas
from agenteval_collector.live.stage import LoopStage
from agenteval_collector.model.news import NewsSink
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.runtime.work_in_hand import WorkInHand
from agenteval_collector.runtime.workers import Workers
from agenteval_collector.stores.quarantine import Quarantine
from agenteval_collector.stores.retention import RetentionStage


@dataclass(frozen=True, slots=True)
class _Topics:
    """The topics between the processes, and how far this process has come in them. `erased` are the traces that were
    deleted and may still be in a topic."""

    cluster: Cluster
    producer: KafkaProducer
    span_offsets: Offsets
    trace_offsets: Offsets
    erased: DeletedTraces


def pipeline_in_a_fleet(
    settings: Settings, clock: Clock, tenant: str, memory: MemoryGuard, hand: WorkInHand, workers: Workers | None
) -> Pipeline:
    """Connect all stages, of which those of this process's role will run. Raises what `pipeline_in_one_process` raises,
    and Unavailable if Kafka cannot be reached."""
    assert settings.log.url is not None
    cluster = Cluster(settings.log.url, tenant, partitions=settings.log.partitions, retention=settings.log.retention)
    producer = KafkaProducer("log", cluster, max_bytes=settings.log.max_pending_bytes)
    storage = Storage(settings, clock, tenant, open_log=partial(KafkaLog, cluster, tenant))
    with storage.closed_on_error():
        watch = StoreWatch(storage.store, clock, may_have_duty=settings.role.does(ProcessRole.SERVE))
        output = make_output(settings, storage, watch.is_on_duty)
        quarantine = Quarantine(storage.store.quarantine, hand, tenant, clock)
        quotas = Quotas(settings.server.quotas, clock)
        base = stages.Foundation(
            settings, clock, memory, storage, quarantine, output, watch.is_on_duty, quotas, workers
        )
        erased = DeletedTraces(settings.log.retention)
        return _connect(base, _Topics(cluster, producer, Offsets(), Offsets(), erased), watch)


def _connect(base: stages.Foundation, topics: _Topics, watch: StoreWatch) -> Pipeline:
    store, clock, cluster, producer = base.store, base.clock, topics.cluster, topics.producer
    # The topic of news tells all processes what one of them found. Each feeds its watchers with what it hears.
    heard, live_loops, past_sessions = HeardProcesses(), stages.make_live_loops(base), PastSessions()
    open_spans = PartitionSpans(clock, base.telemetry, cluster, topics.span_offsets, store)
    feed = Feed(base.telemetry, Participants(store, heard), clock)
    news = NewsTopic(producer, cluster, Participants(store, live_loops, open_spans))
    emit = make_emit(base.output, news, past_sessions)

    evaluate_role = _evaluate_role(base, topics, emit)
    live_findings = stages.make_live_findings(base, live_loops, open_spans, emit)
    assemble_role = _assemble_role(base, topics, live_findings)
    ingest = stages.make_ingest(base, RequestTopic(producer, cluster), assemble_role.assembly.stage)
    return _pipeline(
        base, topics, watch, heard, feed, news, past_sessions, evaluate_role, live_findings, assemble_role, ingest
    )


def _pipeline(
    base: stages.Foundation,
    topics: _Topics,
    watch: StoreWatch,
    heard: HeardProcesses,
    feed: Feed,
    news: NewsTopic,
    past_sessions: PastSessions,
    evaluate_role: "_EvaluateRole",
    live_findings: stages.LiveFindings,
    assemble_role: "_AssembleRole",
    ingest: Ingest,
) -> Pipeline:
    """Add what is beside the way of a span: retention, news of other processes, queries, reports and gauges."""
    store, settings, producer = base.store, base.settings, topics.producer
    evaluation, assembly = evaluate_role.evaluation, assemble_role.assembly
    erasure = FleetErasure(store.deletions, news, settings.log.retention, base.clock, base.telemetry)
    retention = stages.make_retention(base, erasure, store.files, tell=news.deletion)
    trace_handler, erased = evaluate_role.trace_handler, topics.erased
    handler = FleetNewsHandler(base, live_findings, assembly, evaluation, trace_handler, erased, feed, retention)
    reader = NewsReader(topics.cluster, feed, heard, handler, base.telemetry)
    regressions = stages.make_regressions(base)
    queries = stages.make_queries(base, assembly.assembler, live_findings.open_spans, evaluation)
    reports = stages.make_reports(base, SessionTopic(producer, topics.cluster), news, retention)
    asking = stages.make_uncertain_asking(base, queries, reports)
    deciding = (stages.make_alarms(base, regressions), *asking, *stages.make_notifiers(base))
    fleet = _Stages(watch, retention, deciding, assemble_role, live_findings.stage, evaluate_role, reader, producer)
    sessions = StoredSessions(store.session_levels, partial(store.past_sessions, REMEMBERED_SESSIONS), base.clock)
    queues, levels = (producer, live_findings.stage, assembly.stage, evaluation.stage), sessions.session_levels
    stages.register_gauges(base, assembly, queues, queries, regressions, levels=levels, past=sessions)
    lags = {"spans": topics.span_offsets.lags, "traces": topics.trace_offsets.lags}
    base.output.own_work.observe_partitions(lags)

    def recover() -> None:
        # Listen first: what is deleted after the look into the store is told by news.
        fleet.news.begin()
        erased.know(store.deletions.all_to_erase())

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
        components=fleet.of(settings.role),
        holders=(producer, assembly.stage, live_findings.stage),
        recover=recover,
        stop=fleet.stop,
    )


@dataclass(frozen=True, slots=True)
class _AssembleRole:
    """Reads the topic of spans, assembles traces, and writes them into the topic of traces."""

    reader: TopicReader
    assembly: stages.AssemblyParts
    trace_topic: TraceTopic


def _assemble_role(base: stages.Foundation, topics: _Topics, live_findings: stages.LiveFindings) -> _AssembleRole:
    cluster, store, offsets = topics.cluster, base.store, topics.span_offsets
    progress = Progress(live_findings.open_spans)
    trace_topic = TraceTopic(
        topics.producer,
        cluster,
        store,
        topics.erased,
        SessionKey(session_naming(base.settings)),
        progress.take_scored,
    )
    span_progress = SpanProgress(store.habits, offsets)
    assembly = stages.make_assembly(base, live_findings, traces=trace_topic, progress=progress, store=span_progress)
    span_handler = SpanMessageHandler(base.storage.tenant, assembly.stage, topics.erased)
    return _AssembleRole(
        TopicReader("spans", cluster, cluster.spans, "assemble", offsets, span_handler, base.telemetry),
        assembly,
        trace_topic,
    )


@dataclass(frozen=True, slots=True)
class _EvaluateRole:
    """Reads the topic of traces and evaluates them."""

    reader: TopicReader
    trace_handler: TraceMessageHandler
    evaluation: stages.EvaluationParts


def _evaluate_role(base: stages.Foundation, topics: _Topics, emit: NewsSink) -> _EvaluateRole:
    cluster, offsets = topics.cluster, topics.trace_offsets
    inbox = stages.make_inbox(base.settings)
    trace_handler = TraceMessageHandler(inbox, offsets, topics.erased)
    own_sessions = PartitionSessions(cluster, base.store, topics.producer, offsets, trace_handler)

    def asks_again() -> bool:
        # Exactly one evaluator has the first partition.
        return 0 in offsets.partitions

    evaluation = stages.make_evaluation(
        base, inbox, own_sessions, emit=emit, scored=trace_handler, asks_again=asks_again
    )
    return _EvaluateRole(
        TopicReader("traces", cluster, cluster.traces, "evaluate", offsets, trace_handler, base.telemetry),
        trace_handler,
        evaluation,
    )


@dataclass(frozen=True, slots=True)
class _Stages:
    """All stages of a fleet. A process runs those of its role."""

    watch: StoreWatch
    retention: RetentionStage
    deciding: Sequence[Component]
    """Decide on alarms, tell of them, and choose what the judge is asked about beside its sample."""
    assemble_role: _AssembleRole
    loops: LoopStage
    evaluate_role: _EvaluateRole
    news: NewsReader
    producer: KafkaProducer

    def of(self, role: ProcessRole) -> Sequence[Component]:
        """Return the stages of a role. One that hands on to another stands before it."""
        assemble, evaluate = self.assemble_role, self.evaluate_role
        assembling = (assemble.reader, assemble.assembly.stage, self.loops, assemble.trace_topic)
        evaluating = (evaluate.reader, *evaluate.evaluation.components)
        return (
            # A process that only receives goes on without the store.
            *((self.watch,) if role is not ProcessRole.RECEIVE else ()),
            *((self.retention, *self.deciding) if role.does(ProcessRole.SERVE) else ()),
            *(assembling if role.does(ProcessRole.ASSEMBLE) else ()),
            *(evaluating if role.does(ProcessRole.EVALUATE) else ()),
            self.news,
            self.producer,
        )

    def stop(self, deadline: float) -> None:
        """Stop all stages by the deadline: first those that read from Kafka, then those that work, last the one that
        sends."""
        assemble, evaluate = self.assemble_role, self.evaluate_role
        readers = (assemble.reader, evaluate.reader)
        working = (assemble.assembly.stage, self.loops, *reversed(evaluate.evaluation.components))
        beside = (self.watch, self.retention, *self.deciding)
        stages.stop_in_turn((*beside, *readers, *working, assemble.trace_topic, self.news), deadline)
        # They save what is finished, so that no other process does it again. Without Kafka that may take for ever.
        leaving = [threading.Thread(target=reader.leave, daemon=True) for reader in readers]
        for member in leaving:
            member.start()
        for member in leaving:
            member.join(max(0.0, deadline - time.monotonic()))
        stages.stop_in_turn((self.producer,), deadline)
