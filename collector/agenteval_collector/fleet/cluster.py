"""The topics in a Kafka cluster: their names and tenants, how clients reach them, and where their partitions end."""

import logging
import re
import time
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.runtime.errors import PermanentError, Unavailable

logger = logging.getLogger(__name__)

BROKERS_WITHIN: Final = 15.0
"""Seconds that the cluster may take to answer at the start."""
ATTEMPTS: Final = 50
"""Attempts to find a new topic within that time."""
LOOKED_WITHIN: Final = 5.0
"""Seconds that the cluster may take to list its topics later on."""
ENDS_WITHIN: Final = 4.0
"""Seconds that the brokers may take to say where partitions end."""
LARGEST: Final = 128 * 1024 * 1024
"""Bytes of a message at most. A whole trace is one message."""

Options: TypeAlias = dict[str, str | int | float | bool]


class Cluster:
    """A Kafka cluster with the topics of one tenant. Missing topics are created."""

    def __init__(self, url: str, tenant: str, *, partitions: int, retention: float) -> None:
        """Find or create the topics. Their names begin with the path of `url`. A new topic has so many `partitions`,
        and keeps messages for `retention` seconds. Raises Unavailable if the cluster does not answer, PermanentError
        if it cannot be used."""
        self.options = options_of(url)
        self.name = f"Kafka at {self.options['bootstrap.servers']}"
        stem = stem_of(url)
        if tenant != DEFAULT_TENANT:
            stem = f"{stem}.{tenant}"
        self.spans, self.traces, self.news = topics_of(stem)
        self.stem = stem
        keep = {"retention.ms": str(round(retention * 1000)), "max.message.bytes": str(LARGEST)}
        wanted = [
            NewTopic(self.spans, num_partitions=partitions, config=keep),
            NewTopic(self.traces, num_partitions=partitions, config=keep),
            # One partition, as each process reads all news. The store has the news that a process has missed.
            NewTopic(self.news, num_partitions=1, config={**keep, "retention.ms": str(600_000)}),
        ]
        self.admin = AdminClient(self.options)
        self.partitions: Mapping[str, int] = self._made(wanted)

    def partition_of(self, topic: str, key: bytes) -> int:
        """Return the partition of a key, by the same rule as librdkafka's partitioner `consistent`."""
        return zlib.crc32(key) % self.partitions[topic]

    def _made(self, wanted: list[NewTopic]) -> dict[str, int]:
        admin = self.admin
        try:
            there = admin.list_topics(timeout=BROKERS_WITHIN).topics
            missing = [topic for topic in wanted if topic.topic not in there]
            if missing:
                for name, topic_future in admin.create_topics(missing, operation_timeout=BROKERS_WITHIN).items():
                    _wait(topic_future, name)
            return {topic.topic: _shown(admin, topic.topic) for topic in wanted}
        except KafkaException as error:
            raise Unavailable(f"log.url: {self.name} cannot be used now: {said(error.args[0])}") from error


def _shown(admin: AdminClient, topic: str) -> int:
    """Return the number of partitions of a topic. Waits for a new one: not all brokers know it at once."""
    for _ in range(ATTEMPTS):
        topic_data = admin.list_topics(topic, timeout=BROKERS_WITHIN).topics[topic]
        if topic_data.error is None and topic_data.partitions:
            return len(topic_data.partitions)
        time.sleep(BROKERS_WITHIN / ATTEMPTS)
    raise Unavailable(f"log.url: the brokers do not show the topic {topic} after {BROKERS_WITHIN:g} s; start again")


def stem_of(url: str) -> str:
    """Return the text that the names of all topics of a URL begin with."""
    return urlsplit(url).path.strip("/") or "agenteval"


def topics_of(stem: str) -> tuple[str, str, str]:
    """Return the names of a tenant's topics: of spans, of traces, of news."""
    return f"{stem}.spans", f"{stem}.traces", f"{stem}.news"


def options_of(url: str) -> Options:
    """Return the options of a client for `kafka://user:password@host:9092,host:9092/prefix?option=value`. The options
    behind the question mark go to librdkafka as they are, such as `security.protocol=SASL_SSL`. Raises PermanentError.
    """
    address = urlsplit(url)
    credentials, _, hosts = address.netloc.rpartition("@")
    options: Options = {"bootstrap.servers": hosts, **dict(parse_qsl(address.query))}
    if credentials:
        user, _, password = credentials.partition(":")
        options |= {"sasl.username": unquote(user), "sasl.password": unquote(password)}
        options.setdefault("sasl.mechanism", "SCRAM-SHA-512")
        options.setdefault("security.protocol", "SASL_SSL")
    if not hosts:
        raise PermanentError("log.url: names no broker; give kafka://host:9092")
    # librdkafka writes to stderr; our own log messages say the same.
    options.setdefault("log_level", 2)
    return options


def said(error: object) -> str:
    """Return the text of an error of librdkafka, in one line."""
    return error.str() if isinstance(error, KafkaError) else str(error)


def _wait(topic_future: Future[None], name: str) -> None:
    """Wait until a topic is created, by this process or another. Raises KafkaException."""
    try:
        topic_future.result()
    except KafkaException as error:
        # Another process was faster.
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    else:
        logger.info("made the topic %s", name)


class TenantTopics:
    """Looks for tenants in a Kafka cluster. The default tenant is not among them, as it is always there."""

    def __init__(self, url: str) -> None:
        self._admin = AdminClient(options_of(url))
        self._stem = stem_of(url)
        self._spans = re.compile(rf"{re.escape(self._stem)}\.([a-z0-9-]+)\.spans")

    def tenants(self) -> list[str]:
        """Return the tenants that have all their topics. Raises Unavailable."""
        try:
            there = self._admin.list_topics(timeout=LOOKED_WITHIN).topics
        except KafkaException as error:
            raise Unavailable(f"tenants cannot be looked for: {said(error.args[0])}") from error
        numbers = [match[1] for name in sorted(there) if (match := self._spans.fullmatch(name))]
        return [name for name in numbers if there.keys() >= {*topics_of(f"{self._stem}.{name}")}]


class PartitionEnds:
    """Asks the brokers where partitions begin and end, without waiting for the answers.

    It asks on connections of its own. On a reader's connection a broker answers only after its wait for further
    messages, half a second for each partition. The ends that a reader itself remembers are old while its handler has no
    room.
    """

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._asked: dict[TopicPartition, tuple[Future[Any], Future[Any]]] = {}

    def ask(self, positions: Iterable[TopicPartition]) -> None:
        """Ask about these partitions; `take_answers` has the answers a moment later. Earlier questions are dropped.
        Raises KafkaException."""
        self._asked = {}
        partitions = [TopicPartition(position.topic, position.partition) for position in positions]
        if partitions:
            first, end = (
                self._admin.list_offsets(dict.fromkeys(partitions, of), request_timeout=ENDS_WITHIN)
                for of in (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]
            )
            self._asked = {partition: (first[partition], end[partition]) for partition in partitions}

    def take_answers(self) -> list[tuple[int, int, int]]:
        """Return partition, first offset and end of each partition that was answered since the last call."""
        answered = {key: of for key, of in self._asked.items() if of[0].done() and of[1].done()}
        numbers = []
        for position, (first, end) in answered.items():
            del self._asked[position]
            # An unanswered question is asked again; `/readyz` shows whether the brokers answer at all.
            with suppress(KafkaException):
                numbers.append((position.partition, first.result().offset, end.result().offset))
        return numbers
