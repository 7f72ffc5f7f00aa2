"""Send news to all processes. Each reads the whole topic, from the time of its own start on."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from agenteval_collector.emit.ports import ProcessesIn
from agenteval_collector.fleet.cluster import BROKERS_WITHIN, Cluster, said
from agenteval_collector.fleet.fleet_news import FleetNewsHandler
from agenteval_collector.fleet.from_json import committed_from, finding_from, report_from
from agenteval_collector.fleet.producer import KafkaProducer, arrived
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.news import News, NewsSink
from agenteval_collector.model.running_traces import StartsReport
from agenteval_collector.runtime.component import Poller
from agenteval_collector.runtime.errors import CollectorError, Unavailable
from otel_agenteval.internal.lru import LruMap

logger = logging.getLogger(__name__)

POLL: Final = 0.2
"""Seconds that the thread waits for messages at the longest."""
SESSIONS: Final = 20_000
"""Sessions of other processes whose participants are remembered."""
KIND: Final = "kind"
TOLD, STARTS, DELETE, FORGET = b"told", b"starts", b"delete", b"forget"

_KEY: Final = b"news"


class HeardProcesses:
    """The processes that take part in sessions, as other processes have sent them. Thread-safe."""

    def __init__(self) -> None:
        self._known: LruMap[str, frozenset[str]] = LruMap(SESSIONS)
        self._of_traces: LruMap[str, frozenset[str]] = LruMap(SESSIONS)

    def hear(self, processes: Mapping[str, Iterable[str]], of_traces: Mapping[str, Iterable[str]]) -> None:
        """Note the processes that take part in sessions, and in traces."""
        for session_id, names in processes.items():
            self._known.put(session_id, frozenset(names))
        for trace_id, names in of_traces.items():
            self._of_traces.put(trace_id, frozenset(names))

    def processes_in(self, session_id: str) -> frozenset[str]:
        return self._known.get(session_id) or frozenset()

    def processes_of(self, trace_id: str) -> frozenset[str]:
        return self._of_traces.get(trace_id) or frozenset()


class NewsTopic:
    """Sends news to all processes, this one too. It does not wait for the brokers. Watchers miss news that the brokers
    do not take; the store still has it."""

    def __init__(self, producer: KafkaProducer, cluster: Cluster, participants: ProcessesIn) -> None:
        self._producer = producer
        self._topic = cluster.news
        self._participants = participants

    def take_news(self, news: News) -> None:
        """Send findings and evaluations, with the processes that the findings are for. Raises RetryableError if they
        cannot be sent."""
        evaluations = [evaluation for evaluation in news.evaluations if not evaluation.final]
        if not news.to_tell and not evaluations:
            return
        sessions, trace_ids = (
            {getattr(finding, key) for finding in news.to_tell} for key in ("session_id", "trace_id")
        )
        body = {
            "findings": [asdict(finding) for finding in news.to_tell],
            "evaluations": [asdict(evaluation) for evaluation in evaluations],
            "processes": {session: sorted(self._participants.processes_in(session)) for session in sessions},
            "of_traces": {trace: sorted(self._participants.processes_of(trace)) for trace in trace_ids},
        }
        self._send(TOLD, json.dumps(body).encode())

    def take_starts(self, report: StartsReport) -> None:
        """Send which spans are open in a process. Raises RetryableError if that cannot be sent."""
        self._send(STARTS, json.dumps(asdict(report)).encode())

    def deletion(self) -> None:
        """Say that the store has a deletion to carry out. Raises RetryableError if that cannot be sent; the deletion
        is then found later."""
        self._send(DELETE, b"")

    def forget(self, trace_ids: Sequence[str], session_ids: Sequence[str], deletion_id: str) -> None:
        """Tell all processes which traces and sessions are deleted, and by which deletion; "" if by none. Return once
        the brokers have this. Raises RetryableError if they do not take it."""
        body = json.dumps({"trace_ids": [*trace_ids], "session_ids": [*session_ids], "deletion_id": deletion_id})
        arrived(self._send(FORGET, body.encode()))

    def _send(self, kind: bytes, body: bytes) -> Any:
        return self._producer.send(self._topic, _KEY, body, [(KIND, kind)])


class NewsReader(Poller):
    """Reads the news of all processes from its start on, and hands them on."""

    def __init__(
        self,
        cluster: Cluster,
        feed: NewsSink,
        heard: HeardProcesses,
        handler: FleetNewsHandler,
        telemetry: Telemetry,
    ) -> None:
        super().__init__("news")
        self._telemetry = telemetry
        self._topic = cluster.news
        self._admin = cluster.admin
        self._feed = feed
        self._heard = heard
        self._handler = handler
        # It joins no group, but the client insists on a name.
        self._consumer = Consumer({**cluster.options, "group.id": f"{cluster.stem}.news", "enable.auto.commit": False})

    def begin(self) -> None:
        """Read the news that come from now on, once it runs. Raises Unavailable if the brokers do not answer."""
        position = TopicPartition(self._topic, 0)
        try:
            # On the connection that has just looked for the topics: it is open already.
            offsets = self._admin.list_offsets({position: OffsetSpec.latest()}, request_timeout=BROKERS_WITHIN)  # type: ignore[no-untyped-call]
            self._consumer.assign([TopicPartition(self._topic, 0, offsets[position].result().offset)])
        except KafkaException as error:
            raise Unavailable(f"{self._topic} cannot be read: {said(error.args[0])}") from error

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._consumer.close()

    def step(self) -> None:
        if (message := self._consumer.poll(POLL)) is not None:
            self._hear(message)

    def _hear(self, message: Message) -> None:
        if (error := message.error()) is not None:
            self.refused(CollectorError(said(error)))
            return
        self.accepted()
        kind, body = dict(message.headers() or ()).get(KIND), message.value() or b""
        try:
            # Until the store answers. News may be carried out twice.
            self.insist(self._told, kind, body)
        except (ValueError, KeyError, TypeError) as problem:
            logger.error("news of another version, or none, is passed over: %s", problem)
            self._telemetry.count(Counted.PASSED_OVER, which=self.name)

    def _told(self, kind: str | bytes | None, body: bytes) -> None:
        if kind == TOLD:
            message = json.loads(body)
            # Processes of an earlier version do not name those of traces.
            self._heard.hear(message["processes"], message.get("of_traces", {}))
            findings = [finding_from(document) for document in message["findings"]]
            self._feed.take_news(
                News(to_tell=findings, evaluations=[committed_from(document) for document in message["evaluations"]])
            )
        elif kind == STARTS:
            self._handler.take_starts(report_from(json.loads(body)))
        elif kind == DELETE:
            self._handler.wake_retention()
        elif kind == FORGET:
            doomed = json.loads(body)
            # Processes of an earlier version do not name the deletion.
            self._handler.forget(doomed["trace_ids"], doomed["session_ids"], doomed.get("deletion_id", ""))
