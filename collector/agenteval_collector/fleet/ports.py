"""The ports of the Kafka log: the stages that take what its topics hold, and the handlers of messages between them."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from confluent_kafka import Message

from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.logged_requests import LoggedRequest
from agenteval_collector.model.running_traces import StartsReport
from agenteval_collector.runtime.errand import Errand
from otel_agenteval.outcome import Evaluation


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


class Assembly(Protocol):
    """The stage that takes requests."""

    def admit(self) -> None:
        """Check that there is room for one more request. Raises Overloaded."""

    def take_request(self, request: LoggedRequest) -> None: ...

    def give_up(self, partitions: Collection[int]) -> Errand[None]:
        """Save how far these partitions are scored, and forget their traces."""


class StoredTraces(Protocol):
    """The traces that the store has."""

    def known_traces(self, trace_ids: Sequence[str]) -> Mapping[str, tuple[int, frozenset[int]]]:
        """Return revision and offsets of those that are stored. Raises RetryableError."""


class EvaluationIntake(Protocol):
    """The inbox of the evaluation."""

    def take_trace(self, trace: AssembledTrace, timeout: float) -> bool: ...

    def end_session(self, session_id: str, *, marked: bool) -> None: ...

    def judge_again(self, outcomes: Sequence[Sequence[Evaluation]]) -> Future[int]: ...

    def run_errand(self, errand: Errand[None]) -> None: ...

    def take_partitions(self, partitions: Collection[int]) -> None:
        """Go on with the sessions of these partitions."""

    def give_up_partitions(self, partitions: Collection[int]) -> Future[None]:
        """Forget the sessions of these partitions; done once everything of them that is under way is committed."""


class NewsHandler(Protocol):
    """Carries out what all processes are told. Called on the reader's thread."""

    def take_starts(self, report: StartsReport) -> None:
        """Take the spans that are open in a process. Raises RetryableError if the store does not take the findings
        on them; they then come again."""

    def wake_retention(self) -> None:
        """Look for deletions in the store that were asked for."""

    def forget(self, trace_ids: Sequence[str], session_ids: Sequence[str], deletion_id: str) -> None:
        """Forget traces and sessions that a deletion erases; if it is "", they are erased for their age."""
