"""What a reader of a topic does with messages while partitions come and go."""

import threading
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.eventually import eventually

pytest.importorskip("confluent_kafka")

from agenteval_collector.log.kafka import topic_reader
from agenteval_collector.log.kafka.offsets import Offsets


class Message:
    def __init__(self, number: int) -> None:
        self._number = number

    def error(self) -> None:
        return None

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._number


class Consumer:
    """Gives a partition and its first messages at once, as librdkafka may."""

    def __init__(self, _: Any) -> None:
        self._begun = threading.Event()

    def subscribe(self, _: Any, on_assign: Any, **others: Any) -> None:
        self._on_assign = on_assign

    def poll(self, timeout: float) -> Message | None:
        if self._begun.is_set():
            threading.Event().wait(0.01)
            return None
        self._begun.set()
        self._on_assign(self, [SimpleNamespace(partition=0)])
        return Message(0)

    def consume(self, count: int, timeout: float) -> list[Message]:
        return [Message(1)]


class Taker:
    def __init__(self) -> None:
        self.taken: list[int] = []

    def take_message(self, partition: int, number: int, message: Any) -> bool:
        self.taken.append(number)
        return True

    def assigned(self, partitions: Collection[int]) -> None: ...

    def revoked(self, partitions: Collection[int]) -> None: ...

    def lost(self, partitions: Collection[int]) -> None: ...


def test_messages_that_come_with_their_partition_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_reader, "Consumer", Consumer)
    taker, cluster = Taker(), SimpleNamespace(options={}, stem="s", admin=None)
    reader = topic_reader.TopicReader("traces", cluster, "t", "g", Offsets(), taker)  # type: ignore[arg-type]
    reader.start()
    eventually(lambda: taker.taken == [0, 1])
    reader.shutdown()
