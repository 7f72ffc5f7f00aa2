"""The ports of the Kafka log: the stages that take what its topics hold, and the handlers of messages between them."""

from collections.abc import Collection
from typing import Protocol

from confluent_kafka import Message


class MessageHandler(Protocol):
    """Takes the messages of a topic, and is told which partitions it has. Called on the reader's thread."""

    def take_message(self, partition: int, number: int, message: Message) -> bool:
        """Take the `number`th message of a partition. Return False if there is no room now; it then comes again."""

    def assigned(self, partitions: Collection[int]) -> None:
        """Expect messages of these partitions, from the noted number on."""

    def revoked(self, partitions: Collection[int]) -> None:
        """Finish the work on these partitions that is under way, and forget the rest: another process goes on."""

    def lost(self, partitions: Collection[int]) -> None:
        """Forget all messages of these partitions: another process has gone on with them already."""
