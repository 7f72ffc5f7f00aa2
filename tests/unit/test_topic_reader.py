"""What a reader of a topic does with messages while partitions come and go."""

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.assembling import Counting
from tests.support.eventually import eventually

pytest.importorskip("confluent_kafka")

from agenteval_collector.fleet import topic_reader
from agenteval_collector.fleet.offsets import Offsets
from confluent_kafka import KafkaError


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
    """Gives a partition and its first messages at once, as librdkafka may. The brokers refuse the first commit."""

    def __init__(self, options: Any) -> None:
        self._begun = threading.Event()
        self._on_commit = options["on_commit"]
        self._answers: list[Any] = []
        self.commits: list[dict[int, int]] = []

    def subscribe(self, _: Any, on_assign: Any, **others: Any) -> None:
        self._on_assign = on_assign

    def poll(self, timeout: float) -> Message | None:
        if self._begun.is_set():
            while self._answers:
                self._on_commit(*self._answers.pop())
            threading.Event().wait(0.01)
            return None
        self._begun.set()
        self._on_assign(self, [SimpleNamespace(partition=0)])
        return Message(0)

    def consume(self, count: int, timeout: float) -> list[Message]:
        return [Message(1)]

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        error = None if self.commits else KafkaError(KafkaError.REBALANCE_IN_PROGRESS)
        self.commits.append({each.partition: each.offset for each in offsets})
        self._answers.append((error, offsets))


class Taker:
    """`bad` are the numbers of messages that it cannot work off."""

    def __init__(self, *bad: int) -> None:
        self.bad = bad
        self.taken: list[int] = []

    def take_message(self, partition: int, number: int, message: Any) -> bool:
        self.taken.append(number)
        if number in self.bad:
            raise ValueError("no message of ours")
        return True

    def assigned(self, partitions: Collection[int]) -> None: ...

    def revoked(self, partitions: Collection[int]) -> None: ...

    def lost(self, partitions: Collection[int]) -> None: ...


def test_messages_that_come_with_their_partition_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taker = Taker()
    with reading(monkeypatch, taker):
        eventually(lambda: taker.taken == [0, 1])


def test_a_message_that_is_passed_over_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    taker = Taker(0)
    with reading(monkeypatch, taker) as (telemetry, _):
        eventually(lambda: taker.taken == [0, 1])
    assert telemetry.counts["messages.passed_over traces"] == 1


def test_what_the_brokers_refuse_to_save_is_saved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    taker, offsets = Taker(), Offsets()
    with reading(monkeypatch, taker, offsets) as (_, consumer):
        eventually(lambda: taker.taken == [0, 1])
        offsets.note(0, 2)
        eventually(lambda: consumer.commits == [{0: 2}, {0: 2}])
    assert not offsets.unsaved()


@contextmanager
def reading(
    monkeypatch: pytest.MonkeyPatch, taker: Taker, offsets: Offsets | None = None
) -> Iterator[tuple[Counting, Consumer]]:
    monkeypatch.setattr(topic_reader, "Consumer", Consumer)
    cluster: Any = SimpleNamespace(options={}, stem="s", admin=None)
    telemetry = Counting()
    reader = topic_reader.TopicReader("traces", cluster, "t", "g", offsets or Offsets(), taker, telemetry)
    consumer: Any = reader._consumer
    reader.start()
    yield telemetry, consumer
    reader.shutdown()
