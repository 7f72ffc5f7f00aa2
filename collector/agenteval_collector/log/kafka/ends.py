"""Where the partitions of a topic begin and end."""

from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

WITHIN: Final = 4.0
"""Seconds that the brokers have to say so."""


class PartitionEnds:
    """Asks the brokers where partitions begin and end; nobody waits for it.

    By connections of its own: on those of who reads, a broker answers such a question only behind the wait for further
    messages, half a second for each partition. What a reader itself remembers is old while it has no room.
    """

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._asked: dict[TopicPartition, tuple[Future[Any], Future[Any]]] = {}

    def ask(self, places: Iterable[TopicPartition]) -> None:
        """Ask about these partitions alone; `answers` has them a moment later. Raises KafkaException."""
        self._asked = {}
        asked = [TopicPartition(each.topic, each.partition) for each in places]
        if asked:
            first, end = (
                self._admin.list_offsets(dict.fromkeys(asked, of), request_timeout=WITHIN)
                for of in (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]
            )
            self._asked = {each: (first[each], end[each]) for each in asked}

    def answers(self) -> list[tuple[int, int, int]]:
        """Return partition, first offset and end of those that are answered since the last call."""
        answered = {each: of for each, of in self._asked.items() if of[0].done() and of[1].done()}
        found = []
        for place, (first, end) in answered.items():
            del self._asked[place]
            # What the brokers do not answer is asked again; `/readyz` says whether they answer at all.
            with suppress(KafkaException):
                found.append((place.partition, first.result().offset, end.result().offset))
        return found
