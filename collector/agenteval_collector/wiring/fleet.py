"""Connect a tenant's pipeline in one of several processes, which share the work by Kafka and the store by PostgreSQL.

receive: receiver -> topic of spans, by trace
assemble: topic of spans -> assembly -> topic of traces, by session
             |-> loops in open traces -> store -> emit
evaluate: topic of traces -> evaluation, judge -> store -> emit
serve: store -> page, API; one of them: gauges of all, events, deletions

A process does one of these, or all. Each is built in every process, and runs where it is that process's role.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agenteval_collector.api.queries import Queries
from agenteval_collector.assembly.stage import Progress
from agenteval_collector.config.settings import ProcessRole, Settings
from agenteval_collector.emit.feed import Feed, Participants
from agenteval_collector.evaluation.session_key import SessionKey
from agenteval_collector.findings.loops.stage import LoopStage
from agenteval_collector.log.kafka.cluster import Cluster
from agenteval_collector.log.kafka.deleted_traces import DeletedTraces
from agenteval_collector.log.kafka.news_topic import HeardProcesses, NewsReader, NewsTopic
from agenteval_collector.log.kafka.offsets import Offsets
from agenteval_collector.log.kafka.producer import KafkaProducer
from agenteval_collector.log.kafka.span_topic import KafkaLog, RequestTopic, SpanMessageHandler, SpanProgress
from agenteval_collector.log.kafka.topic_reader import TopicReader
from agenteval_collector.log.kafka.trace_messages import SessionTopic, TraceMessageHandler
from agenteval_collector.log.kafka.trace_topic import TraceTopic
from agenteval_collector.model.news import NewsSink
from agenteval_collector.reliability.version_reports import ReliabilityReports
from agenteval_collector.retention.stage import RetentionStage
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.sessions.past_sessions import PastSessions, StoredSessions
from agenteval_collector.wiring import stages
from agenteval_collector.wiring.emit import make_emit, make_output
from agenteval_collector.wiring.fleet_erasing import FleetErasure
from agenteval_collector.wiring.hearing import FleetNewsHandler
from agenteval_collector.wiring.partitions import PartitionSessions, PartitionSpans
from agenteval_collector.wiring.pipeline import REMEMBERED_SESSIONS, Pipeline
from agenteval_collector.wiring.scoring import reliability_reports, session_naming
from agenteval_collector.wiring.storage import Storage
from agenteval_collector.wiring.store_watch import StoreWatch


@dataclass(frozen=True, slots=True)
class _Topics:
    """The topics between the processes, and how far this process has come in them. `erased` are the traces that were
    deleted and may still be in a topic."""

    cluster: Cluster
    producer: KafkaProducer
    span_offsets: Offsets
    trace_offsets: Offsets
    erased: DeletedTraces


def pipeline_in_a_fleet(settings: Settings, clock: Clock, tenant: str, memory: MemoryGuard) -> Pipeline:
    """Connect all stages, of which those of this process's role will run. Raises what `pipeline_in_one_process` raises,
    and Unavailable where Kafka cannot be reached."""
    assert settings.log.url is not None
    cluster = Cluster(settings.log.url, tenant, partitions=settings.log.partitions, retention=settings.log.retention)
    producer = KafkaProducer("log", cluster, max_bytes=settings.log.max_pending_bytes)
    storage = Storage(settings, clock, tenant, open_log=lambda _: KafkaLog(cluster, tenant))
    with storage.closed_on_error():
        watch = StoreWatch(storage.store, clock, may_have_duty=settings.role.does(ProcessRole.SERVE))
        output = make_output(settings, storage, watch.is_on_duty)
        base = stages.Foundation(settings, clock, memory, storage, output, watch.is_on_duty)
        return _connect(base, _Topics(cluster, producer, Offsets(), Offsets(), DeletedTraces()), watch)


def _connect(base: stages.Foundation, topics: _Topics, watch: StoreWatch) -> Pipeline:
    store, clock, settings, producer = base.store, base.clock, base.settings, topics.producer
    heard, live, past_sessions = HeardProcesses(), stages.make_live_loops(base), PastSessions()
    open_spans = PartitionSpans(clock, base.telemetry, topics.cluster, topics.span_offsets, store)
    # The topic of news tells all processes what one of them found. Each feeds its watchers with what it hears.
    feed = Feed(base.telemetry, Participants(store, heard), clock)
    news = NewsTopic(producer, topics.cluster, Participants(store, live, open_spans).processes_in)
    emit = make_emit(base.output, news, past_sessions)
    found = stages.make_live_findings(base, live, open_spans, emit)
    evaluate = _evaluate(base, topics, emit)
    assemble = _assemble(base, topics, found)
    evaluation, assembly = evaluate.evaluation, assemble.assembly
    base.memory.watch(producer, assembly.stage, found.stage)
    erasure = FleetErasure(store.deletions, news, settings.log.retention, clock, base.telemetry)
    retention = stages.make_retention(base, erasure, store.files, tell=news.deletion)
    handler = FleetNewsHandler(
        base, found, assembly, evaluation, evaluate.trace_handler, erased=topics.erased, feed=feed, retention=retention
    )
    fleet = _Stages(
        watch,
        retention,
        assemble,
        found.stage,
        evaluate,
        NewsReader(topics.cluster, feed, heard, handler, base.telemetry),
        producer,
    )
    reliability = reliability_reports(settings, store, clock)
    queries = stages.make_queries(base, assembly.assembler, open_spans, evaluation, reliability)
    _show_levels(base, topics, fleet, queries, reliability)

    def recover() -> None:
        # Listen first: what is deleted after the look into the store is told by news.
        fleet.news.begin()
        topics.erased.know(store.deletions.all_to_erase())

    return Pipeline(
        base=base,
        feed=feed,
        past_sessions=past_sessions,
        ingest=stages.make_ingest(base, RequestTopic(producer, topics.cluster), assembly.stage),
        assembly=assembly,
        evaluation=evaluation,
        retention=retention,
        queries=queries,
        reports=stages.make_reports(base, SessionTopic(producer, topics.cluster), news.starts, retention),
        components=fleet.of(settings.role),
        recover=recover,
        stop=fleet.stop,
    )


@dataclass(frozen=True, slots=True)
class _Assemble:
    """topic of spans -> assembly -> topic of traces"""

    reader: TopicReader
    assembly: stages.AssemblyParts
    trace_topic: TraceTopic


def _assemble(base: stages.Foundation, topics: _Topics, found: stages.LiveFindings) -> _Assemble:
    cluster, store, offsets = topics.cluster, base.store, topics.span_offsets
    progress = Progress(found.open_spans)
    trace_topic = TraceTopic(
        topics.producer,
        cluster,
        store,
        topics.erased,
        SessionKey(session_naming(base.settings)),
        progress.take_scored,
    )
    span_progress = SpanProgress(store.habits, offsets)
    assembly = stages.make_assembly(base, found, traces=trace_topic, progress=progress, store=span_progress)
    span_handler = SpanMessageHandler(base.storage.tenant, assembly.stage, topics.erased)
    return _Assemble(
        TopicReader("spans", cluster, cluster.spans, "assemble", offsets, span_handler, base.telemetry),
        assembly,
        trace_topic,
    )


@dataclass(frozen=True, slots=True)
class _Evaluate:
    """topic of traces -> evaluation"""

    reader: TopicReader
    trace_handler: TraceMessageHandler
    evaluation: stages.EvaluationParts


def _evaluate(base: stages.Foundation, topics: _Topics, emit: NewsSink) -> _Evaluate:
    cluster, offsets = topics.cluster, topics.trace_offsets
    inbox = stages.make_inbox(base.settings)
    trace_handler = TraceMessageHandler(inbox, offsets, topics.erased)
    own_sessions = PartitionSessions(cluster, base.store, topics.producer, offsets, trace_handler.waits_for)

    def asks_again() -> bool:
        # Exactly one evaluator has the first partition.
        return 0 in offsets.partitions

    evaluation = stages.make_evaluation(
        base, inbox, own_sessions, emit=emit, scored=trace_handler, asks_again=asks_again
    )
    return _Evaluate(
        TopicReader("traces", cluster, cluster.traces, "evaluate", offsets, trace_handler, base.telemetry),
        trace_handler,
        evaluation,
    )


@dataclass(frozen=True, slots=True)
class _Stages:
    """All stages of a fleet. A process runs those of its role."""

    watch: StoreWatch
    retention: RetentionStage
    assemble: _Assemble
    loops: LoopStage
    evaluate: _Evaluate
    news: NewsReader
    producer: KafkaProducer

    def of(self, role: ProcessRole) -> Sequence[Component]:
        """Return those of a role, on the way of a span."""
        assemble, evaluate = self.assemble, self.evaluate
        assembling = (assemble.reader, assemble.assembly.stage, self.loops, assemble.trace_topic)
        evaluating = (evaluate.reader, *evaluate.evaluation.components)
        return (
            # A process that only receives goes on without the store.
            *((self.watch,) if role is not ProcessRole.RECEIVE else ()),
            *((self.retention,) if role.does(ProcessRole.SERVE) else ()),
            *(assembling if role.does(ProcessRole.ASSEMBLE) else ()),
            *(evaluating if role.does(ProcessRole.EVALUATE) else ()),
            self.news,
            self.producer,
        )

    def stop(self, deadline: float) -> None:
        """Stop them by the deadline: what takes in first, then what works it off, then what it leaves by."""
        assemble, evaluate = self.assemble, self.evaluate
        readers = (assemble.reader, evaluate.reader)
        working = (assemble.assembly.stage, self.loops, *reversed(evaluate.evaluation.components))
        stages.stop_in_turn((self.watch, self.retention, *readers, *working, assemble.trace_topic, self.news), deadline)
        for reader in readers:
            reader.leave()  # It saves what is finished, so that no other process does it again.
        stages.stop_in_turn((self.producer,), deadline)


def _show_levels(
    base: stages.Foundation, topics: _Topics, fleet: _Stages, queries: Queries, reliability: ReliabilityReports
) -> None:
    store, assembly = base.store, fleet.assemble.assembly
    sessions = StoredSessions(store.session_levels, lambda: store.past_sessions(REMEMBERED_SESSIONS), base.clock)
    queues = (fleet.producer, fleet.loops, assembly.stage, fleet.evaluate.evaluation.stage)
    stages.show_levels(
        base, assembly.assembler, queues, queries, reliability, levels=sessions.session_levels, past=sessions
    )
    lags = {"spans": topics.span_offsets.lags, "traces": topics.trace_offsets.lags}
    base.output.collector.observe_partitions(lags)
