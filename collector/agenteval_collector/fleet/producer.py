"""Send messages to Kafka. A thread of its own waits for the brokers' answers."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaException, Message, Producer

from agenteval_collector.fleet.cluster import LARGEST, Cluster, said
from agenteval_collector.model.logged_requests import offset_in
from agenteval_collector.runtime.component import Poller
from agenteval_collector.runtime.errors import Overloaded, Unavailable

WITHIN_MS: Final = 8_000
"""Milliseconds until a message is given up: less than a sender waits for its answer."""
ANSWERED_WITHIN: Final = 10.0
"""Seconds that a sender waits for the brokers' answer. None comes if the producer has stopped meanwhile."""
LINGER_MS: Final = 3
"""Milliseconds within which messages are sent together."""
POLL: Final = 0.2
"""Seconds that the thread waits for answers at the longest."""
CLUSTER_ASKED_EVERY: Final = 2.0
"""Seconds between two questions whether the cluster is there: a process with nothing to send must know it, too."""
PROBE: Final = 1.0
"""Seconds that the cluster may take to answer."""

Headers = Sequence[tuple[str, bytes]]


def arrived(sent: Future[int]) -> int:
    """Return the offset of a message once the brokers have it. Raises Unavailable if they do not take it, or if
    it is not known within `ANSWERED_WITHIN` seconds whether they have; it may still arrive."""
    try:
        return sent.result(ANSWERED_WITHIN)
    except TimeoutError as error:
        raise Unavailable(f"the brokers did not answer within {ANSWERED_WITHIN:g} s") from error


class KafkaProducer(Poller):
    """Sends messages, each once and in order. One has arrived when all brokers that copy its partition have it."""

    def __init__(self, name: str, cluster: Cluster, *, max_bytes: int) -> None:
        """Make a client. While `max_bytes` wait for the brokers, `send` refuses."""
        super().__init__(name)
        self._cluster = cluster
        self._max_bytes = max_bytes
        self._next_look = 0.0
        self._held = 0
        # Guards `_held`: the receiver's threads add to it, the thread here takes away.
        self._weighing = threading.Lock()
        options: dict[str, Any] = {
            **cluster.options,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": LINGER_MS,
            "delivery.timeout.ms": WITHIN_MS,
            "compression.type": "lz4",
            "message.max.bytes": LARGEST,
            "queue.buffering.max.kbytes": max(max_bytes, LARGEST) // 1024 + 1,
            "queue.buffering.max.messages": 0,
        }
        self._producer = Producer(options)

    @property
    def held(self) -> int:
        """Bytes that wait for the brokers. From any thread."""
        return self._held

    @property
    def waiting(self) -> int:
        """The number of messages that wait for the brokers; an instant's value."""
        return len(self._producer)

    def send(self, topic: str, key: bytes, value: bytes, headers: Headers = ()) -> Future[int]:
        """Send a message. The future has its offset (`model.logged_requests.offset_in`) once the brokers have it, and
        raises Unavailable if they did not take it in time; it may still arrive. Raises Overloaded if too much
        waits already."""
        if self.stopping:
            raise Unavailable("the collector is stopping")
        self._admit(len(value))
        sent: Future[int] = Future()

        def delivered(error: Any, message: Message) -> None:
            self._release(len(value))
            if error is None:
                self.accepted()
                sent.set_result(offset_in(message.partition() or 0, message.offset() or 0))
            else:
                refusal = Unavailable(f"{self._cluster.name} did not take a message: {said(error)}")
                self.refused(refusal)
                sent.set_exception(refusal)

        try:
            self._producer.produce(
                topic,
                value,
                key,
                partition=self._cluster.partition_of(topic, key),
                headers=list(headers),
                on_delivery=delivered,
            )
        except (BufferError, KafkaException) as error:
            self._release(len(value))
            raise Unavailable(f"{self._cluster.name} cannot take a message now: {error}") from error
        return sent

    def _admit(self, size: int) -> None:
        with self._weighing:
            if self._held and self._held + size > self._max_bytes:
                raise Overloaded(f"more waits for {self._cluster.name} than fits; send again later")
            self._held += size

    def _release(self, size: int) -> None:
        with self._weighing:
            self._held -= size

    def run(self) -> None:
        super().run()
        self._producer.flush(WITHIN_MS / 1000)

    def step(self) -> None:
        self._producer.poll(POLL)
        if time.monotonic() >= self._next_look:
            self._probe()
            self._next_look = time.monotonic() + CLUSTER_ASKED_EVERY

    def _probe(self) -> None:
        try:
            self._producer.list_topics(self._cluster.news, timeout=PROBE)
        except KafkaException as error:
            self.refused(Unavailable(f"{self._cluster.name} does not answer: {said(error.args[0])}"))
        else:
            self.accepted()
