"""The topic of spans. The receiver writes requests to it, one message for each trace. The assembly reads it in order,
and by offset."""

import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import groupby
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from agenteval_collector.assembly.stage import AssemblyStage
from agenteval_collector.fleet.cluster import Cluster, said
from agenteval_collector.fleet.deleted_traces import DeletedTraces
from agenteval_collector.fleet.offsets import Offsets
from agenteval_collector.fleet.producer import KafkaProducer
from agenteval_collector.fleet.topic_reader import LARGEST_ANSWER
from agenteval_collector.ingest.request_traces import trace_of
from agenteval_collector.model.logged_requests import NO_TRACE, LoggedRequest, Signal, offset_in, split_offset
from agenteval_collector.runtime.errors import Overloaded, Unavailable
from agenteval_collector.stores.sender_habits import HabitStore
from otel_agenteval.proto.v1.frame_pb2 import Frame, ScopeFrame

logger = logging.getLogger(__name__)

GIVEN_UP_WITHIN: Final = 10.0
"""Seconds that the assembly may take to finish with a partition."""
LOOKED_UP_WITHIN: Final = 10.0
"""Seconds that a broker may take to answer a look-up."""
SIGNAL: Final = "signal"
"""The header with the signal of a message. A message without it holds spans: so the OpenTelemetry Collector's exporter
for Kafka writes it with `encoding: otlp_proto` and `partition_traces_by_id: true`."""


class RequestTopic:
    """Takes requests. The part of each trace becomes a message of its own, with the trace's id as its key."""

    def __init__(self, producer: KafkaProducer, cluster: Cluster) -> None:
        self._producer = producer
        self._topic = cluster.spans

    def append(self, signal: Signal, body: bytes) -> list[Future[int]]:
        """Append a request. Each future has the offset of a part once the brokers have that. Raises
        RetryableError if it cannot be sent. Parts that were sent by then are recognised when they come again."""
        headers = [(SIGNAL, str(int(signal)).encode())]
        by_key = by_trace(signal, body)
        return [self._producer.send(self._topic, key, body_part, headers) for key, body_part in by_key.items()]


def by_trace(signal: Signal, body: bytes) -> Mapping[bytes, bytes]:
    """Cut an export request into one for each trace, by trace id. Items without a trace are left out."""
    frames: dict[bytes, Frame] = {}
    request = Frame.FromString(body)
    for resource in request.resources:
        for scope in resource.scopes:
            items: dict[bytes, list[bytes]] = {}
            for raw in scope.items:
                items.setdefault(trace_of(signal, raw), []).append(raw)
            for trace_id, raws in items.items():
                scopes = [ScopeFrame(scope=scope.scope, items=raws)]
                frames.setdefault(trace_id, Frame(sender=request.sender)).resources.add(
                    resource=resource.resource, scopes=scopes
                )
    if len(frames) == 1:
        return {trace_id: body for trace_id in frames if trace_id not in NO_TRACE}
    return {trace_id: frame.SerializeToString() for trace_id, frame in frames.items() if trace_id not in NO_TRACE}


class SpanMessageHandler:
    """Hands messages of the topic to the assembly, those of deleted traces as requests without content."""

    def __init__(self, tenant: str, assembly: AssemblyStage, erased: DeletedTraces) -> None:
        self._tenant = tenant
        self._assembly = assembly
        self._erased = erased

    def take_message(self, partition: int, number: int, message: Message) -> bool:
        try:
            self._assembly.admit()
        except Overloaded:
            return False
        request = request_of(message, self._tenant, partition, number)
        if self._erased.has((message.key() or b"").hex(), request.received_at):
            # Not left out: by its offset the assembly knows how far the partition is done.
            request = request._replace(body=b"")
        self._assembly.take_request(request)
        return True

    def assigned(self, partitions: Collection[int]) -> None:
        """Do nothing: the first message of a partition says where it begins."""

    def revoked(self, partitions: Collection[int]) -> None:
        self._assembly.give_up(partitions).wait(GIVEN_UP_WITHIN)

    def lost(self, partitions: Collection[int]) -> None:
        self._assembly.give_up(partitions)


class KafkaLog:
    """The log of the assembly, for look-ups by offset, which are thread-safe.

    After a restart the reader goes on at the group's offsets, and Kafka forgets old messages by itself. So the other
    methods of a log do nothing here.
    """

    def __init__(self, cluster: Cluster, tenant: str) -> None:
        self._cluster = cluster
        self._tenant = tenant
        options: dict[str, Any] = {
            **cluster.options,
            "group.id": f"{cluster.stem}.look-ups",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "receive.message.max.bytes": LARGEST_ANSWER,
            # One message is wanted, not all behind it.
            "queued.min.messages": 1,
            "queued.max.messages.kbytes": 1024,
        }
        self._consumer = Consumer(options)
        self._lock = threading.Lock()

    def read(self, start: int) -> Iterable[LoggedRequest]:
        """Return nothing: all requests come by the reader."""
        return ()

    def last_offset(self) -> int:
        return 0

    def trim(self, below: int, older_than: int, batch: int, but: Collection[int] = ()) -> int:
        """Return 0: the topic's own retention forgets requests."""
        return 0

    def get(self, offsets: Sequence[int]) -> Iterator[LoggedRequest]:
        """Yield the requests at these offsets that are still kept, in order. Raises Unavailable."""
        for partition, wanted in groupby(sorted(offsets), lambda offset: split_offset(offset)[0]):
            with self._lock:
                requests = self._look_up(partition, [split_offset(offset)[1] for offset in wanted])
            yield from requests

    def shutdown(self) -> None:
        self._consumer.close()

    def _look_up(self, partition: int, numbers: Sequence[int]) -> list[LoggedRequest]:
        topic = self._cluster.spans
        requests: list[LoggedRequest] = []
        try:
            for number in numbers:
                self._consumer.assign([TopicPartition(topic, partition, number)])
                message = self._consumer.poll(LOOKED_UP_WITHIN)
                if message is None:
                    raise Unavailable(f"{self._cluster.name} did not answer within {LOOKED_UP_WITHIN:g} s")
                if (error := message.error()) is not None:
                    raise Unavailable(f"{topic} cannot be read: {said(error)}")
                if message.offset() == number:  # Else that one is forgotten, and this is the oldest that is kept.
                    requests.append(request_of(message, self._tenant, partition, number))
        except KafkaException as error:
            raise Unavailable(f"{topic} cannot be read: {said(error.args[0])}") from error
        finally:
            self._consumer.unassign()
        return requests


class SpanProgress:
    """An `AssemblyStore` that keeps checkpoints as the group's offsets."""

    def __init__(self, habits: HabitStore, offsets: Offsets) -> None:
        self.habits = habits
        self._offsets = offsets

    def checkpoint(self) -> int:
        """Return 0: each partition goes on if the group has left it."""
        return 0

    def save_checkpoint(self, offset: int) -> None:
        self._offsets.note(*split_offset(offset))


def request_of(message: Message, tenant: str, partition: int, number: int) -> LoggedRequest:
    """Return a message as a request of the log. Raises ValueError if its header names no signal."""
    headers = dict(message.headers() or ())
    signal = headers.get(SIGNAL)
    _, milliseconds = message.timestamp()
    return LoggedRequest(
        offset_in(partition, number),
        tenant,
        Signal.TRACES if signal is None else Signal(int(signal)),
        milliseconds * 1_000_000,
        message.value() or b"",
    )
