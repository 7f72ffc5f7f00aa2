"""The pipeline of one tenant in one of several processes, which share the work by Kafka and the store by PostgreSQL.

receive: receiver -> topic of spans, by trace
assemble: topic of spans -> assembly -> topic of traces, by session
             |-> loops
evaluate: topic of traces -> evaluation -> store, emission; judge
serve: store -> page, API; one of them: gauges of all, events, deletions

A process does one of these, or all. Each is built in every process, and runs where it is that process's role.
"""

from collections.abc import Callable, Iterable, Sequence

from agenteval_collector.config import Role, Settings
from agenteval_collector.emit.feed import Feed, Participants
from agenteval_collector.emit.ports import PastSessionCounts
from agenteval_collector.evaluation import SessionKey
from agenteval_collector.findings.loops import LiveLoops
from agenteval_collector.log.kafka.cluster import Cluster
from agenteval_collector.log.kafka.deleted_traces import DeletedTraces
from agenteval_collector.log.kafka.news_topic import HeardProcesses, NewsReader, NewsTopic
from agenteval_collector.log.kafka.offsets import Offsets
from agenteval_collector.log.kafka.producer import KafkaProducer
from agenteval_collector.log.kafka.span_topic import KafkaLog, RequestTopic, SpanMessageHandler, SpanProgress
from agenteval_collector.log.kafka.topic_reader import TopicReader
from agenteval_collector.log.kafka.trace_messages import SessionTopic, TraceMessageHandler
from agenteval_collector.log.kafka.trace_topic import TraceTopic
from agenteval_collector.model.drift import Drift
from agenteval_collector.model.judge_jobs import JudgeJob
from agenteval_collector.model.running_traces import StartsReport
from agenteval_collector.model.sessions import SessionLevel
from agenteval_collector.retention.ports import File
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errand import Errand
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.sessions import StoredSessions
from agenteval_collector.wiring.fleet_erasing import FleetErasure
from agenteval_collector.wiring.partitions import PartitionSessions, PartitionSpans
from agenteval_collector.wiring.pipeline import REMEMBERED_SESSIONS, STOPPED_WITHIN, Pipeline
from agenteval_collector.wiring.ports import Part
from agenteval_collector.wiring.scoring import session_naming
from agenteval_collector.wiring.storage import Storage
from agenteval_collector.wiring.store_watch import StoreWatch


class FleetPipeline(Pipeline):
    """A pipeline whose stages may run in different processes."""

    def __init__(self, settings: Settings, clock: Clock, tenant: str, memory: MemoryGuard) -> None:
        """Raises what `Pipeline` raises, and Unavailable where Kafka cannot be reached."""
        assert settings.log.url is not None
        self._role = settings.role
        self._cluster = Cluster(
            settings.log.url, tenant, partitions=settings.log.partitions, retention=settings.log.retention
        )
        self._producer = KafkaProducer("log", self._cluster, max_bytes=settings.log.max_pending_bytes)
        self._span_offsets, self._trace_offsets = Offsets(), Offsets()
        self._erased = DeletedTraces()
        super().__init__(settings, clock, tenant, memory)

    def _make_feed(self, live: LiveLoops) -> tuple[Feed, NewsTopic]:
        """Make the feed of watchers, and what all processes are told for theirs."""
        store, heard = self.storage.store, HeardProcesses()
        feed = Feed(self._telemetry, Participants(store, heard), self._clock)
        participants = Participants(store, live, self.open_spans)
        self._news = NewsTopic(self._producer, self._cluster, participants.processes_in)
        self._hearing = NewsReader(self._cluster, feed, heard, self._hear_starts, self._hear_deletion, self._forget)
        return feed, self._news

    def _open_storage(self, tenant: str) -> Storage:
        cluster = self._cluster
        storage = Storage(self._settings, self._clock, tenant, open_log=lambda _: KafkaLog(cluster, tenant))
        serves = self._role.does(Role.SERVE)
        self._store_watch = StoreWatch(storage.store, self._clock, may_have_duty=serves)
        return storage

    def _make_log(self) -> tuple[KafkaProducer, RequestTopic]:
        cluster = self._cluster
        taker = SpanMessageHandler(self.storage.tenant, self.assembly, self._erased)
        self._spans = TopicReader("spans", cluster, cluster.spans, "assemble", self._span_offsets, taker)
        return self._producer, RequestTopic(self._producer, cluster)

    def _make_assembly_store(self) -> SpanProgress:
        return SpanProgress(self.storage.store.habits, self._span_offsets)

    def _make_trace_taker(self) -> TraceTopic:
        store = self.storage.store
        self._handed_over = TraceTopic(
            self._producer,
            self._cluster,
            store.known_traces,
            self._erased,
            SessionKey(session_naming(self._settings)),
            self._progress.take_scored,
        )
        return self._handed_over

    def _share_evaluation(self) -> tuple[PartitionSessions, TraceMessageHandler]:
        cluster, store, offsets = self._cluster, self.storage.store, self._trace_offsets
        self._taken = TraceMessageHandler(self._inbox, offsets, self._erased)
        self._traces = TopicReader("traces", cluster, cluster.traces, "evaluate", offsets, self._taken)
        return PartitionSessions(cluster, store, self._producer, offsets, self._taken.waits_for), self._taken

    def _make_session_taker(self) -> SessionTopic:
        return SessionTopic(self._producer, self._cluster)

    def _make_open_spans(self) -> PartitionSpans:
        return PartitionSpans(self._clock, self._telemetry, self._cluster, self._span_offsets, self.storage.store)

    def _is_on_duty(self) -> bool:
        return self._store_watch.is_on_duty

    def _deletion_teller(self) -> Callable[[], None] | None:
        return self._news.deletion

    def _hear_deletion(self) -> None:
        if self._role.does(Role.SERVE):
            self.retention.wake()

    def _make_erasure(self) -> FleetErasure:
        retention = self._settings.log.retention
        return FleetErasure(self.storage.store.deletions, self._news, retention, self._clock, self._telemetry)

    def _show_levels(self) -> None:
        super()._show_levels()
        self._telemetry.observe_partitions({"spans": self._span_offsets.lags, "traces": self._trace_offsets.lags})

    def _session_levels(self) -> tuple[Callable[[], Iterable[SessionLevel]], PastSessionCounts]:
        store = self.storage.store
        stored = StoredSessions(store.session_levels, lambda: store.past_sessions(REMEMBERED_SESSIONS), self._clock)
        return stored.session_levels, stored

    def _rechecks(self) -> Sequence[JudgeJob]:
        """Return what is to be asked again where this is the one evaluator that has the first partition."""
        return super()._rechecks() if 0 in self._trace_offsets.partitions else ()

    def _drifts(self) -> Sequence[Drift]:
        return self._canaries.stored_drifts()

    def _take_starts(self, report: StartsReport) -> None:
        self._news.starts(report)

    def _hear_starts(self, report: StartsReport) -> None:
        """Take note of the spans that are open in a process; what it has found on them, those tell that assemble."""
        found = self.open_spans.take_starts(report)
        if found and self._role.does(Role.ASSEMBLE):
            self._announcer.announce(found)

    def _forget(self, trace_ids: Sequence[str], session_ids: Sequence[str]) -> None:
        """Forget what was deleted, wherever this process has it."""
        self.feed.forget(trace_ids)
        self.judge.forget({*trace_ids, *session_ids})
        if self._role.does(Role.EVALUATE):
            self._taken.forget(trace_ids, self._clock.now(), Errand(lambda: self._erase_again(trace_ids, session_ids)))
        else:
            self._erased.add(trace_ids, self._clock.now())
        if self._role.does(Role.ASSEMBLE):
            self.assembly.run_errand(Errand(lambda: self.assembler.forget(trace_ids)))
            self.loops.forget(trace_ids)

    def _files(self) -> Sequence[File]:
        return (self.storage.store,)

    def _recover(self) -> None:
        # First: what is deleted after the look is told.
        self._hearing.begin()
        self._erased.know(self.storage.store.deletions.all_doomed())

    def _erase_again(self, trace_ids: Sequence[str], session_ids: Sequence[str]) -> None:
        """Forget on the evaluation's thread, and erase what was on its way and was stored after it had been erased."""
        self._core.forget(trace_ids, session_ids)
        self.storage.store.deletions.erase(trace_ids, session_ids)

    @property
    def parts(self) -> Sequence[Part]:
        assemble = (self._spans, self.assembly, self.loops, self._handed_over)
        evaluate = (self._traces, self.evaluation, self.judge)
        return (
            # Who receives goes on without the store.
            *((self._store_watch,) if self._role is not Role.RECEIVE else ()),
            *((self.retention,) if self._role.does(Role.SERVE) else ()),
            *(assemble if self._role.does(Role.ASSEMBLE) else ()),
            *(evaluate if self._role.does(Role.EVALUATE) else ()),
            self._hearing,
            self._producer,
        )

    def _shutdown_parts(self) -> None:
        readers = (self._spans, self._traces)
        stages = (self.assembly, self.loops, self.judge, self.evaluation, self._handed_over, self._hearing)
        for part in (self._store_watch, self.retention, *readers, *stages):
            part.shutdown(STOPPED_WITHIN)
        for reader in readers:
            reader.leave()  # What was finished until now is not done again by others.
        self._producer.shutdown(STOPPED_WITHIN)
