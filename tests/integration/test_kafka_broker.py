"""The broker that other tests use keeps what it has acknowledged."""

import pytest
from confluent_kafka import Consumer, Message, Producer

from tests.support.eventually import eventually
from tests.support.kafka.broker import Broker

pytestmark = pytest.mark.distributed


def test_what_was_acknowledged_survives_a_kill(kafka: Broker) -> None:
    topic = kafka.new_topic("smoke", partitions=3)
    acknowledged: list[bytes] = []

    def note(error: object, message: Message) -> None:
        assert error is None
        acknowledged.append(message.value() or b"")

    producer = Producer({"bootstrap.servers": kafka.address, "acks": "all", "linger.ms": 0})
    for number in range(100):
        producer.produce(topic, key=str(number % 7), value=str(number), on_delivery=note)
    assert producer.flush(30) == 0
    assert len(acknowledged) == 100

    kafka.kill()
    kafka.start()

    consumer = Consumer(
        {"bootstrap.servers": kafka.address, "group.id": topic, "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe([topic])
    read: list[bytes] = []

    def all_read() -> bool:
        read.extend(message.value() or b"" for message in consumer.consume(100, timeout=0.2) if not message.error())
        return len(read) >= len(acknowledged)

    try:
        eventually(all_read)
    finally:
        consumer.close()
    assert sorted(read) == sorted(acknowledged)


def test_a_restarted_broker_has_its_topics(kafka: Broker) -> None:
    topic = kafka.new_topic("kept", partitions=2)

    kafka.restart()

    producer = Producer({"bootstrap.servers": kafka.address})
    assert len(producer.list_topics(topic, timeout=10).topics[topic].partitions) == 2
