"""What the OpenTelemetry Collector's exporter for Kafka writes into the topic of spans is read as what receivers write.

Real servers. The messages are made as the exporter makes them with `encoding: otlp_proto` and `partition_traces_by_id`:
an export request of one trace, no header, the key the trace id in hexadecimal digits, a partition of its own choice.
"""

from functools import partial
from pathlib import Path

import pytest

from tests.support.databases import stores_on
from tests.support.eventually import eventually
from tests.support.kafka.broker import Broker
from tests.support.otlp import trace_id, traces, turn
from tests.support.postgres import Server
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.distributed

PREFIX = "others"


def test_a_trace_by_the_exporter_for_kafka_is_scored(tmp_path: Path, kafka: Broker, postgresql: Server) -> None:
    from confluent_kafka import Producer  # noqa: PLC0415 - an extra

    log = {"url": f"kafka://{kafka.address}/{PREFIX}", "partitions": 4}
    with stores_on(postgresql), RunningCollector(tmp_path, log=log) as collector:
        exporter = Producer({"bootstrap.servers": kafka.address})
        for number in range(4):
            # Each partition has one: wherever the exporter's own sum puts a trace.
            key, body = trace_id(number).hex(), traces(turn(number, "a", "b", session="s")).SerializeToString()
            exporter.produce(f"{PREFIX}.spans", body, key, partition=number)
        # Not of this kind, and in front of others.
        exporter.produce(f"{PREFIX}.spans", b'{"resourceSpans": []}', "x", partition=0)
        exporter.produce(f"{PREFIX}.spans", b"x", "x", partition=0, headers=[("signal", b"metrics")])
        body = traces(turn(9, "a", "b", session="s")).SerializeToString()
        exporter.produce(f"{PREFIX}.spans", body, trace_id(9).hex(), partition=0)
        assert exporter.flush(30) == 0
        for number in (0, 1, 2, 3, 9):
            eventually(partial(is_complete, collector, number), within=60)


def is_complete(collector: RunningCollector, number: int) -> bool:
    document = collector.get(f"/api/v1/traces/{trace_id(number).hex()}")
    return bool(document and document["complete"])
