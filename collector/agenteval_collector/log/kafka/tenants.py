"""The tenants that have topics: who receives for one for the first time makes them."""

import re
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from agenteval_collector.log.kafka.cluster import options_of, said, stem_of, topics_of
from agenteval_collector.runtime.errors import Unavailable

WITHIN: Final = 5.0
"""Seconds that the cluster has to answer."""


class TenantTopics:
    """Looks for tenants in a Kafka cluster by its URL. The default tenant is not among them: it is always there."""

    def __init__(self, url: str) -> None:
        self._admin = AdminClient(options_of(url))
        self._stem = stem_of(url)
        self._spans = re.compile(rf"{re.escape(self._stem)}\.([a-z0-9-]+)\.spans")

    def tenants(self) -> list[str]:
        """Return the tenants all of whose topics are there. Raises Unavailable."""
        try:
            there = self._admin.list_topics(timeout=WITHIN).topics
        except KafkaException as error:
            raise Unavailable(f"tenants cannot be looked for: {said(error.args[0])}") from error
        found = [match[1] for name in sorted(there) if (match := self._spans.fullmatch(name))]
        return [each for each in found if there.keys() >= {*topics_of(f"{self._stem}.{each}")}]
