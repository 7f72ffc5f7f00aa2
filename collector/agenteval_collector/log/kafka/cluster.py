"""The topics of a tenant in a Kafka cluster, and how clients reach it."""

import logging
import time
import zlib
from collections.abc import Mapping
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.runtime.errors import PermanentError, Unavailable

logger = logging.getLogger(__name__)

WITHIN: Final = 15.0
"""Seconds that the cluster has to answer at the start."""
ATTEMPTS: Final = 50
"""Looks for a new topic within that time."""
LARGEST: Final = 128 * 1024 * 1024
"""Bytes of a message at most: a whole trace is one."""

Options: TypeAlias = dict[str, str | int | float | bool]


class Cluster:
    """A Kafka cluster by its URL, with the topics of one tenant. They are made where they are missing."""

    def __init__(self, url: str, tenant: str, *, partitions: int, retention: float) -> None:
        """The path of the URL is what the topics' names begin with. `partitions` are those of a new topic, `retention`
        how many seconds it keeps messages. Raises Unavailable where the cluster does not answer, PermanentError where
        it cannot be used."""
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
            # One partition, as everybody reads all of it; what is missed is in the store.
            NewTopic(self.news, num_partitions=1, config={**keep, "retention.ms": str(600_000)}),
        ]
        self.admin = AdminClient(self.options)
        self.partitions: Mapping[str, int] = self._made(wanted)

    def partition_of(self, topic: str, key: bytes) -> int:
        """Return the partition of a key, as librdkafka's `consistent` finds it."""
        return zlib.crc32(key) % self.partitions[topic]

    def _made(self, wanted: list[NewTopic]) -> dict[str, int]:
        admin = self.admin
        try:
            there = admin.list_topics(timeout=WITHIN).topics
            missing = [each for each in wanted if each.topic not in there]
            if missing:
                for name, made in admin.create_topics(missing, operation_timeout=WITHIN).items():
                    _wait(made.result, name)
            return {each.topic: _shown(admin, each.topic) for each in wanted}
        except KafkaException as error:
            raise Unavailable(f"log.url: {self.name} cannot be used now: {said(error.args[0])}") from error


def _shown(admin: AdminClient, topic: str) -> int:
    """Return the number of partitions of a topic, once the brokers show it to all: a new one they do not at once."""
    for _ in range(ATTEMPTS):
        found = admin.list_topics(topic, timeout=WITHIN).topics[topic]
        if found.error is None and found.partitions:
            return len(found.partitions)
        time.sleep(WITHIN / ATTEMPTS)
    raise Unavailable(f"log.url: the brokers do not show the topic {topic} after {WITHIN:g} s; start again")


def stem_of(url: str) -> str:
    """Return what the names of all topics behind a URL begin with."""
    return urlsplit(url).path.strip("/") or "agenteval"


def topics_of(stem: str) -> tuple[str, str, str]:
    """Return the names of a tenant's topics: of spans, of traces, of news."""
    return f"{stem}.spans", f"{stem}.traces", f"{stem}.news"


def options_of(url: str) -> Options:
    """Return the options of a client for `kafka://user:password@host:9092,host:9092/prefix?option=value`. What stands
    behind the question mark is handed to librdkafka as it is, such as `security.protocol=SASL_SSL`. Raises
    PermanentError."""
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    options: Options = {"bootstrap.servers": hosts, **dict(parse_qsl(parts.query))}
    if credentials:
        user, _, password = credentials.partition(":")
        options |= {"sasl.username": unquote(user), "sasl.password": unquote(password)}
        options.setdefault("sasl.mechanism", "SCRAM-SHA-512")
        options.setdefault("security.protocol", "SASL_SSL")
    if not hosts:
        raise PermanentError("log.url: names no broker; give kafka://host:9092")
    # What it would say on stderr, our own messages say.
    options.setdefault("log_level", 2)
    return options


def said(error: object) -> str:
    """Return what an error of librdkafka says, in a line."""
    return error.str() if isinstance(error, KafkaError) else str(error)


def _wait(result: object, name: str) -> None:
    assert callable(result)
    try:
        result()
    except KafkaException as error:
        # Another process was faster.
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    else:
        logger.info("made the topic %s", name)
