"""CPU of several evaluators together, for the same complete traces in Kafka, with 1, 2 and 4 processes.

The benchmark needs the extras [kafka] and [postgres], Java, and PostgreSQL's programs. It starts a broker and a server
of its own. The evaluators score other traces before the measured ones come, so their start is no part of the figures.

    python -m benchmarks.fleet_growth [--conversations N] [--json]
"""

import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.harness import Served, arguments, collector, report, send
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests
from tests.support import postgres
from tests.support.kafka import broker

EVALUATORS = (1, 2, 4)
PARTITIONS = 12
WITHIN = 300.0
"""Seconds that a step may take. It takes less, even on a machine that others use as well."""

Traces = Sequence[tuple[bytes, bytes]]
"""Messages of the topic of traces, each with its key and its value."""


class Place:
    """The servers. All collectors there share a prefix of topics and one database."""

    def __init__(self, kafka: broker.Broker, server: postgres.Server) -> None:
        self.kafka = kafka
        self.server = server

    @contextmanager
    def role(self, role: str, prefix: str) -> Iterator[Served]:
        settings = {
            "AGENTEVAL_ROLE": role,
            "AGENTEVAL_LOG__URL": f"kafka://{self.kafka.address}/{prefix}",
            "AGENTEVAL_LOG__PARTITIONS": str(PARTITIONS),
            "AGENTEVAL_STORE__URL": self.server.url,
        }
        with collector(settings) as served:
            yield served

    def assembled(self, conversations: int, seed: int) -> tuple[Traces, int]:
        """Return the complete traces of this many conversations, as an assembler hands them over, and their spans."""
        made = list(generate(conversations, seed=seed))
        count = sum(len(each.turns) for each in made)
        prefix = f"made{seed}"
        with self.role("receive", prefix) as receiver, self.role("assemble", prefix):
            send(receiver.address, list(requests(made, started_at=time.time_ns())))
            found = self._read(f"{prefix}.traces", count)
        self.forget()
        return found, sum(each.span_count for each in made)

    def produce(self, prefix: str, traces: Traces) -> None:
        producer = Producer({"bootstrap.servers": self.kafka.address, "partitioner": "consistent"})
        for key, value in traces:
            producer.produce(f"{prefix}.traces", value, key)
        producer.flush(60)

    def wait_scored(self, traces: int) -> None:
        deadline = time.monotonic() + WITHIN
        while (scored := self.server.execute("SELECT count(*) FROM agenteval.traces")[0][0]) < traces:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{scored} of {traces} traces are scored after {WITHIN:.0f} s")
            time.sleep(0.05)

    def forget(self) -> None:
        self.server.execute("DROP SCHEMA IF EXISTS agenteval CASCADE")

    def _read(self, topic: str, count: int) -> Traces:
        consumer = Consumer({"bootstrap.servers": self.kafka.address, "group.id": "bench"})
        consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
        found: dict[bytes, tuple[bytes, bytes]] = {}
        deadline = time.monotonic() + WITHIN
        while len(found) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} of {count} traces are assembled after {WITHIN:.0f} s")
            for message in consumer.consume(1000, 0.5):
                key, value = message.key() or b"", message.value() or b""
                found[value] = (key, value)
        consumer.close()
        return [*found.values()]


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, conversations=150)
    results: dict[str, float | int | str] = {}
    with broker.broker() as kafka, postgres.server() as server:
        place = Place(kafka, server)
        before, _ = place.assembled(given.conversations // 3, seed=1)
        traces, spans = place.assembled(given.conversations, seed=2)
        results |= {"spans": spans, "traces": len(traces)}
        costs = []
        for count in EVALUATORS:
            cpu, seconds, shares = measured(place, count, before, traces)
            costs.append(cpu / spans)
            results |= {
                f"{count} evaluators: CPU per span, us": cpu / spans * 1e6,
                f"{count} evaluators: of one": costs[-1] / costs[0],
                f"{count} evaluators: spans per second": spans / seconds,
                f"{count} evaluators: CPU of each, s": " ".join(f"{each:.1f}" for each in shares),
            }
    report("Several evaluators", results, as_json=given.json)


def measured(place: Place, count: int, before: Traces, traces: Traces) -> tuple[float, float, Sequence[float]]:
    """Return the CPU seconds that this many evaluators took for the traces, the seconds, and the share of each."""
    prefix = f"growth{count}"
    with ExitStack() as running:
        evaluators = [running.enter_context(place.role("evaluate", prefix)) for _ in range(count)]
        wait_shared(evaluators)
        place.produce(prefix, before)
        place.wait_scored(len(before))
        started, used = time.perf_counter(), [each.cpu_seconds for each in evaluators]
        place.produce(prefix, traces)
        place.wait_scored(len(before) + len(traces))
        seconds = time.perf_counter() - started
        shares = [each.cpu_seconds - was for each, was in zip(evaluators, used, strict=True)]
    place.forget()
    return sum(shares), seconds, shares


def wait_shared(evaluators: Sequence[Served]) -> None:
    """Wait until each evaluator has its part of the partitions."""
    deadline = time.monotonic() + WITHIN
    while sorted(map(partitions, evaluators)) != [PARTITIONS // len(evaluators)] * len(evaluators):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the evaluators do not share the partitions after {WITHIN:.0f} s")
        time.sleep(0.5)


def partitions(served: Served) -> int:
    """Return the number of partitions whose lag the collector shows."""
    with urllib.request.urlopen(f"http://{served.web}/metrics", timeout=60) as page:
        lines = page.read().decode().splitlines()
    return sum(line.startswith("agenteval_collector_partition_lag{") for line in lines)


if __name__ == "__main__":
    main()
