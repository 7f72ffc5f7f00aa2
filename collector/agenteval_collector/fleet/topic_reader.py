"""Read a topic as a member of a group that shares its partitions."""

import logging
import time
from collections import deque
from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from agenteval_collector.fleet.cluster import Cluster, PartitionEnds, said
from agenteval_collector.fleet.offsets import Offsets
from agenteval_collector.fleet.ports import MessageHandler
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.runtime.component import Poller
from agenteval_collector.runtime.errors import CollectorError, RetryableError

logger = logging.getLogger(__name__)

POLL: Final = 0.1
"""Seconds that the thread waits for messages at the longest."""
BATCH: Final = 200
"""Messages that are read together."""
ANSWERED_WITHIN: Final = 10.0
"""Seconds that the brokers may take to say how far the group is."""
ENDS_ASKED_EVERY: Final = 5.0
"""Seconds between two questions where the partitions end."""
LOOKED_WITHIN: Final = 1.0
"""Seconds that a broker may take to say where the partitions end, while messages are read."""
LARGEST_ANSWER: Final = 512 * 1024 * 1024
"""Bytes of a broker's answer at most: the largest message, and the others in its batch."""


class TopicReader(Poller):
    """Reads a topic, and hands each message to a handler. While the handler has no room, nothing is read, and the
    process keeps its partitions."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        topic: str,
        group: str,
        offsets: Offsets,
        handler: MessageHandler,
        telemetry: Telemetry,
    ) -> None:
        super().__init__(name)
        self._telemetry = telemetry
        self._topic = topic
        self._offsets = offsets
        self._handler = handler
        self._held: deque[Message] = deque()
        self._is_paused = False
        self._is_leaving = False
        self._next_look = 0.0
        options: dict[str, Any] = {
            **cluster.options,
            "group.id": f"{cluster.stem}.{group}",
            "enable.auto.commit": False,
            "on_commit": self._on_commit,
            "auto.offset.reset": "earliest",
            # Only the partitions that move are given up. The others are read on meanwhile.
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 2_000,
            # A reader that hangs for so long loses its partitions. No handler takes half of that.
            "max.poll.interval.ms": 60_000,
            "receive.message.max.bytes": LARGEST_ANSWER,
            "queued.max.messages.kbytes": 16 * 1024,
            # The queue is small, so it is full often. By default nothing is fetched for a second then.
            "fetch.queue.backoff.ms": 10,
        }
        self._consumer = Consumer(options)
        self._ends = PartitionEnds(cluster.admin)
        # By partition: the message with which the group goes on, when the ends were asked for.
        self._begins: Mapping[int, int] = {}

    def run(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        super().run()

    def step(self) -> None:
        self._read()
        self._commit()
        self._see_ends()
        if time.monotonic() >= self._next_look:
            self._look_at_ends()
            self._next_look = time.monotonic() + ENDS_ASKED_EVERY

    def leave(self) -> None:
        """Save the noted offsets, and leave the group. Call it once the reader and its handler have stopped. Safe
        twice."""
        self._is_leaving = True
        try:
            self._save(self._offsets.unsaved())
            self._consumer.close()
        except (KafkaException, RuntimeError) as error:
            logger.warning("%s has not left its group: %s", self.name, error)

    def _read(self) -> None:
        if self._offsets.is_stale and not self._read_again():
            self._messages()  # Only a poll tells of changed partitions. The messages come again.
            return
        messages = self._messages()  # Calls `_on_assign`, `_on_revoke` and `_on_lost`.
        self._held.extend(messages)
        while self._held and self._take(self._held[0]):
            self._held.popleft()
        if self._held:
            # Each time: a partition that has come meanwhile is not paused.
            self._consumer.pause(self._consumer.assignment())
            self._is_paused = True
        elif self._is_paused:
            self._consumer.resume(self._consumer.assignment())
            self._is_paused = False

    def _messages(self) -> list[Message]:
        """Return the messages that are there, or the first that comes. `consume` alone would wait until it has `BATCH`
        of them."""
        first = self._consumer.poll(POLL)
        return [] if first is None else [first, *self._consumer.consume(BATCH, 0)]

    def _read_again(self) -> bool:
        """Go back to the messages that the group has saved: those that were taken since are done again. Returns False
        if the group does not know this process any more, or does not answer."""
        self._held.clear()
        try:
            self._save(self._offsets.unsaved())
            assigned = self._consumer.assignment()
            positions = self._consumer.committed(assigned, timeout=ANSWERED_WITHIN) if assigned else []
            if committed := [position for position in positions if position.offset >= 0]:
                # Changes nothing, and fails if this process is no member of the group any more.
                self._consumer.commit(offsets=committed, asynchronous=False)
            self._offsets.is_stale = False
            self._handler.assigned({position.partition for position in positions})
            for position in positions:
                begin = position.offset if position.offset >= 0 else OFFSET_BEGINNING
                self._consumer.seek(TopicPartition(position.topic, position.partition, begin))
        except KafkaException as error:
            self._offsets.is_stale = True
            logger.warning("%s cannot read again what others may have done: %s", self.name, said(error.args[0]))
            return False
        return True

    def _let_go(self, partitions: Collection[int]) -> None:
        """Forget messages of partitions that come or go. Those that are still to be done come again."""
        self._held = deque(held for held in self._held if held.partition() not in partitions)

    def _take(self, message: Message) -> bool:
        error = message.error()
        if error is not None:
            self.refused(CollectorError(said(error)))
            return True
        self.accepted()
        partition, number = message.partition(), message.offset()
        assert partition is not None
        assert number is not None
        if partition not in self._offsets.partitions:
            return True  # It was read before the partition went to another process.
        try:
            return self._handler.take_message(partition, number, message)
        except RetryableError:
            raise
        except Exception:  # Another program's message, or a defect of ours: those behind this one would wait for ever.
            logger.exception("message %d of partition %d of %s is passed over", number, partition, self._topic)
            self._telemetry.count(Counted.PASSED_OVER, which=self.name)
            return True

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        new = {item.partition for item in partitions}
        logger.info("%s has the partitions %s of %s, too", self.name, sorted(new), self._topic)
        self._let_go(new)
        self._offsets.take(new)
        self.survive(self._handler.assigned, new)

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if self._is_leaving:
            return  # Everything is saved already.
        gone = {item.partition for item in partitions}
        logger.info("%s gives up the partitions %s of %s", self.name, sorted(gone), self._topic)
        try:
            self.survive(self._handler.revoked, gone)
            self._save({key: number for key, number in self._offsets.unsaved().items() if key in gone})
        except (KafkaException, RetryableError) as error:
            logger.warning("%s: some messages will be read again: %s", self.name, said(error.args[0]))
        self._offsets.drop(gone)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {item.partition for item in partitions}
        logger.warning("%s has lost the partitions %s of %s", self.name, sorted(gone), self._topic)
        self._offsets.drop(gone)
        self.survive(self._handler.lost, gone)

    def _commit(self) -> None:
        if changed := self._offsets.unsaved():
            try:
                self._consumer.commit(offsets=self._positions(changed), asynchronous=True)
            except KafkaException as error:
                self.refused(error)
            else:
                self._offsets.saved(changed)

    def _on_commit(self, error: KafkaError | None, positions: list[TopicPartition]) -> None:
        if error is not None:
            logger.debug("%s saves again how far it is: %s", self.name, said(error))
            self._offsets.refused({position.partition for position in positions})

    def _save(self, changed: Mapping[int, int]) -> None:
        if changed:
            self._consumer.commit(offsets=self._positions(changed), asynchronous=False)
            self._offsets.saved(changed)

    def _look_at_ends(self) -> None:
        """Ask where the partitions end."""
        positions = [TopicPartition(self._topic, partition) for partition in sorted(self._offsets.partitions)]
        try:
            committed = self._consumer.committed(positions, timeout=LOOKED_WITHIN) if positions else []
            self._ends.ask(committed)
            self._begins = {item.partition: item.offset for item in committed}
        except KafkaException as error:
            self._logger.debug("the ends of %s are not known now: %s", self._topic, said(error.args[0]))

    def _see_ends(self) -> None:
        """Note where partitions end, as far as the brokers have answered."""
        for partition, first, end in self._ends.take_answers():
            self._offsets.saw(partition, max(first, self._begins[partition]), end)

    def _positions(self, numbers: Mapping[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition, number) for partition, number in numbers.items()]
