"""The components of the Kafka log, on clients that need no broker."""

import json
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from agenteval_collector.fleet import news_topic, producer, topic_reader
from agenteval_collector.fleet.deleted_traces import DeletedTraces
from agenteval_collector.fleet.fleet_news import FleetNewsHandler
from agenteval_collector.fleet.news_topic import DELETE, FORGET, KIND, HeardProcesses, NewsReader
from agenteval_collector.fleet.offsets import Offsets
from agenteval_collector.fleet.producer import KafkaProducer
from agenteval_collector.fleet.topic_reader import TopicReader
from agenteval_collector.fleet.trace_topic import TraceTopic
from agenteval_collector.model.counters import NoTelemetry
from agenteval_collector.model.news import News
from agenteval_collector.model.running_traces import StartsReport
from agenteval_collector.runtime.errors import CollectorError, Unavailable
from agenteval_collector.stores.store import Store
from confluent_kafka import KafkaException

from tests.support.lifecycle import Case
from tests.support.otlp import turn
from tests.support.scoring import assembled

MOMENT = 0.01
"""Seconds that a client waits where nothing has come."""
CLUSTER: Any = SimpleNamespace(
    name="Kafka", options={}, stem="s", admin=None, news="news", traces="traces", partition_of=lambda topic, key: 0
)


class Message:
    """A message as librdkafka hands it over."""

    def __init__(self, number: int, value: bytes, headers: Sequence[tuple[str, bytes]] = ()) -> None:
        self._number = number
        self._value = value
        self._headers = headers

    def error(self) -> None:
        return None

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._number

    def value(self) -> bytes:
        return self._value

    def headers(self) -> Sequence[tuple[str, bytes]]:
        return self._headers


class Client:
    """A producer and a consumer in one; `messages` are on their way. It has one partition. Refuses while `refuses`."""

    def __init__(self, _: object) -> None:
        self.messages: deque[Message] = deque()
        self.refuses = False
        self._callbacks: deque[tuple[Callable[..., None], Message]] = deque()
        self._given = 0
        self._assigned: Callable[[Any, Any], None] | None = None
        self._pause = Event()

    def put(self, value: bytes, headers: Sequence[tuple[str, bytes]] = ()) -> Message:
        self._given += 1
        message = Message(self._given, value, headers)
        self.messages.append(message)
        return message

    def produce(self, topic: str, value: bytes, key: bytes, *, on_delivery: Callable[..., None], **others: Any) -> None:
        self._callbacks.append((on_delivery, Message(0, value)))

    def __len__(self) -> int:
        return len(self._callbacks)

    def flush(self, timeout: float) -> None:
        while self._callbacks:
            told, message = self._callbacks.popleft()
            told("the broker refuses" if self.refuses else None, message)

    def list_topics(self, topic: str, timeout: float) -> None:
        if self.refuses:
            raise KafkaException("the broker refuses")

    def subscribe(self, topics: Sequence[str], on_assign: Callable[[Any, Any], None], **others: Any) -> None:
        self._assigned = on_assign

    def poll(self, timeout: float) -> Message | None:
        if self._assigned is not None:
            self._assigned(self, [SimpleNamespace(partition=0)])
            self._assigned = None
        self.flush(timeout)
        if self.messages:
            return self.messages.popleft()
        self._pause.wait(MOMENT)
        return None

    def consume(self, count: int, timeout: float) -> list[Message]:
        return [self.messages.popleft() for _ in range(min(count, len(self.messages)))]

    def committed(self, places: Sequence[Any], timeout: float) -> list[Any]:
        return []

    def close(self) -> None: ...


class ProducerCase(Case):
    refuses_senders = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with patch.object(producer, "Producer", Client):
            self.stage = self._producer = KafkaProducer("log", CLUSTER, max_bytes=1 << 20)
        self._client: Any = self._producer._producer

    def give(self, number: int) -> None:
        def done(sent: Future[int]) -> None:
            if sent.exception() is None:
                self.done.append(number)

        self._producer.send("spans", b"key", str(number).encode()).add_done_callback(done)

    def give_defect(self) -> None:
        def fail(error: object, message: object) -> None:
            raise ValueError("a defect")

        self._client.produce("spans", b"", b"", on_delivery=fail)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        self._client.refuses = True
        yield
        self._client.refuses = False

    def close(self) -> None: ...


class ReaderCase(Case):
    can_refuse = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        cluster = SimpleNamespace(options={}, stem="s", admin=SimpleNamespace())
        with patch.object(topic_reader, "Consumer", Client):
            self.stage = reader = TopicReader("spans", cluster, "spans", "assemble", Offsets(), self, NoTelemetry())  # type: ignore[arg-type]
        self._client: Any = reader._consumer

    def give(self, number: int) -> None:
        self._client.put(str(number).encode())

    def give_defect(self) -> None:
        self._client.put(b"no number")

    def take_message(self, partition: int, number: int, message: Any) -> bool:
        self.done.append(int(message.value()))
        return True

    def assigned(self, partitions: Collection[int]) -> None: ...

    def revoked(self, partitions: Collection[int]) -> None: ...

    def lost(self, partitions: Collection[int]) -> None: ...

    def close(self) -> None: ...


class NewsCase(Case, FleetNewsHandler):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._refuses = False
        with patch.object(news_topic, "Consumer", Client):
            self.stage = reader = NewsReader(CLUSTER, self, HeardProcesses(), self, NoTelemetry())
        self._client: Any = reader._consumer

    def give(self, number: int) -> None:
        body = json.dumps({"trace_ids": [str(number)], "session_ids": []})
        self._client.put(body.encode(), [(KIND, FORGET)])

    def give_defect(self) -> None:
        self._client.put(b"", [(KIND, DELETE)])

    def take_news(self, news: News) -> None: ...

    def take_starts(self, report: StartsReport) -> None: ...

    def forget(self, trace_ids: Sequence[str], session_ids: Sequence[str], deletion_id: str) -> None:
        if self._refuses:
            raise Unavailable("the store refuses")
        self.done += map(int, trace_ids)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        self._refuses = True
        yield
        self._refuses = False

    def wake_retention(self) -> None:
        raise RuntimeError("a defect")

    def close(self) -> None: ...


class HandOverCase(Case, Store):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._known: dict[str, tuple[int, frozenset[int]]] = {}
        self._refuses = self._fails = False
        sending: Any = self
        self.stage = self._topic = TraceTopic(
            sending, CLUSTER, self, DeletedTraces(60.0), lambda trace: trace.trace_id, self.take_scored
        )

    def give(self, number: int) -> None:
        if not self._topic.take_trace(assembled(turn(number, "hi", f"answer {number}")), 0.0):
            raise CollectorError("no room")

    def give_defect(self) -> None:
        self._fails = True

    def send(self, topic: str, key: bytes, value: bytes) -> Future[int]:
        """Evaluate it at once."""
        self._known[key.decode()] = 1, frozenset({1})
        sent: Future[int] = Future()
        sent.set_result(1)
        return sent

    def known_traces(self, trace_ids: Sequence[str]) -> Mapping[str, tuple[int, frozenset[int]]]:
        if self._refuses:
            raise Unavailable("the store refuses")
        if self._fails:
            self._fails = False
            raise ValueError("a defect")
        return {each: self._known[each] for each in trace_ids}

    def take_scored(self, trace_id: str, revision: int) -> None:
        self.done.append(int(trace_id, 16))

    @contextmanager
    def refusing(self) -> Iterator[None]:
        self._refuses = True
        yield
        self._refuses = False

    def close(self) -> None: ...


CASES: tuple[type[Case], ...] = (ProducerCase, ReaderCase, NewsCase, HandOverCase)
