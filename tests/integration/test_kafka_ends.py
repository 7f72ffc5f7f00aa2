"""Whoever reads a topic is not kept from it while the ends of its partitions are looked at."""

import pytest

from tests.support.eventually import eventually
from tests.support.kafka.broker import Broker

pytestmark = pytest.mark.distributed


def test_ends_are_told_and_only_once(kafka: Broker) -> None:
    from agenteval_collector.fleet.cluster import PartitionEnds  # noqa: PLC0415 - an extra
    from confluent_kafka import Producer, TopicPartition  # noqa: PLC0415
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    topic = kafka.new_topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.address})
    for _ in range(3):
        producer.produce(topic, b"x", partition=1)
    producer.flush(30)
    ends = PartitionEnds(AdminClient({"bootstrap.servers": kafka.address}))
    assert ends.take_answers() == []
    ends.ask([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    found: list[tuple[int, int, int]] = []
    eventually(lambda: found.extend(ends.take_answers()) or len(found) == 2)
    assert sorted(found) == [(0, 0, 0), (1, 0, 3)]
    assert ends.take_answers() == []
    ends.ask([])
    assert ends.take_answers() == []
