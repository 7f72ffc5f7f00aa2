"""Take complete traces, and reports on sessions, out of the topic of traces; write the reports to it."""

import json
import logging
import threading
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from itertools import groupby
from typing import Final

from confluent_kafka import Message

from agenteval_collector.evaluation.inbox import EvaluationInbox
from agenteval_collector.fleet.cluster import Cluster
from agenteval_collector.fleet.deleted_traces import DeletedTraces
from agenteval_collector.fleet.from_json import sent_evaluation
from agenteval_collector.fleet.offsets import Offsets
from agenteval_collector.fleet.producer import KafkaProducer, arrived
from agenteval_collector.fleet.trace_bytes import from_bytes
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.runtime.errand import Errand
from agenteval_collector.runtime.errors import PermanentError, Unavailable
from otel_agenteval.outcome import Evaluation

logger = logging.getLogger(__name__)

FINISHED_WITHIN: Final = 20.0
"""Seconds that the evaluation may take to commit its traces of partitions that this process gives up."""
KIND: Final = "kind"
"""The header with the kind of a message that is no trace."""
ENDED, AGAIN = b"ended", b"again"


class TraceMessageHandler:
    """Hands traces of the topic to the evaluation, and notes those that are stored."""

    def __init__(self, evaluation: EvaluationInbox, offsets: Offsets, erased: DeletedTraces) -> None:
        self._evaluation = evaluation
        self._erased = erased
        self._offsets = offsets
        # By partition: the messages that were taken and are not stored, in order, with trace id and revision.
        self._taken: dict[int, dict[int, tuple[str, int]]] = {}
        # By partition: the number of the next message.
        self._next: dict[int, int] = {}
        # By trace id and revision: partition and number of its messages.
        self._messages_of: dict[tuple[str, int], set[tuple[int, int]]] = {}
        # Guards all three: the reader's thread adds, the evaluation's takes away.
        self._lock = threading.Lock()
        # A trace enters the evaluation's inbox before the errand that forgets it: behind it, it would be stored.
        self._handing_over = threading.Lock()

    def take_message(self, partition: int, number: int, message: Message) -> bool:
        try:
            trace = self._trace_in(message)
        except (PermanentError, ValueError, KeyError, TypeError):
            self._note(partition, number, None)  # It is passed over, and does not come again.
            raise
        with self._handing_over:
            if trace is None or self._erased.covers(trace):
                self._note(partition, number, None)
                return True
            # Noted before it is handed over: it may be stored before `take_trace` returns.
            self._note(partition, number, (trace.trace_id, trace.revision))
            if self._evaluation.take_trace(trace, 0.0):
                return True
            self._take_back(partition, number, trace)
            return False

    def forget(self, trace_ids: Iterable[str], at: int, errand: Errand[None]) -> None:
        """Hand over nothing more of traces that were deleted at that time (ns). Then have the evaluation run the
        errand."""
        with self._handing_over:
            self._erased.add(trace_ids, at)
            self._evaluation.run_errand(errand)

    def _trace_in(self, message: Message) -> AssembledTrace | None:
        """Return the trace in a message. A report is handed to the evaluation, and None is returned."""
        kind, body = dict(message.headers() or ()).get(KIND), message.value() or b""
        if kind == ENDED:
            report = json.loads(body)
            self._evaluation.end_session(**report)
        elif kind == AGAIN:
            self._evaluation.judge_again(
                [[sent_evaluation(evaluation) for evaluation in of] for of in json.loads(body)]
            )
        else:
            return from_bytes(body)
        return None

    def take_scored(self, trace_id: str, revision: int) -> None:
        """Note that a revision is stored."""
        with self._lock:
            for partition, number in self._messages_of.pop((trace_id, revision), ()):
                if partition in self._taken:
                    self._taken[partition].pop(number, None)
                    self._offsets.note(partition, self._done_below(partition))

    def assigned(self, partitions: Collection[int]) -> None:
        self._drop(partitions)
        self._evaluation.take_partitions(partitions)

    def revoked(self, partitions: Collection[int]) -> None:
        # First: traces that are not evaluated yet are left to the next process, so that none is waited for.
        self._drop(partitions)
        try:
            self._evaluation.give_up_partitions(partitions).result(FINISHED_WITHIN)
        except TimeoutError as error:
            raise Unavailable(f"the evaluation has not finished within {FINISHED_WITHIN:g} s") from error

    def lost(self, partitions: Collection[int]) -> None:
        self._drop(partitions)
        self._evaluation.give_up_partitions(partitions)

    def waits_for(self, trace: AssembledTrace) -> bool:
        """Return whether the trace, in a message of a partition of this process, is still to be stored. From any
        thread."""
        return (trace.trace_id, trace.revision) in self._messages_of

    def _drop(self, partitions: Collection[int]) -> None:
        """Forget all notes on these partitions."""
        with self._lock:
            for partition in partitions:
                self._taken.pop(partition, None)
                self._next.pop(partition, None)
            gone = {*partitions}
            self._messages_of = {
                key: messages_left
                for key, messages in self._messages_of.items()
                if (messages_left := {message for message in messages if message[0] not in gone})
            }

    def _note(self, partition: int, number: int, of_trace: tuple[str, int] | None) -> None:
        with self._lock:
            self._next[partition] = number + 1
            if of_trace is None:
                self._offsets.note(partition, self._done_below(partition))
            else:
                self._taken.setdefault(partition, {})[number] = of_trace
                self._messages_of.setdefault(of_trace, set()).add((partition, number))

    def _take_back(self, partition: int, number: int, trace: AssembledTrace) -> None:
        """Take back a note, as the message comes again."""
        with self._lock:
            self._next[partition] = number
            self._taken[partition].pop(number, None)
            # Another message may hold the same revision.
            key = trace.trace_id, trace.revision
            if rest := self._messages_of.get(key, set()) - {(partition, number)}:
                self._messages_of[key] = rest
            else:
                self._messages_of.pop(key, None)

    def _done_below(self, partition: int) -> int:
        return next(iter(self._taken.get(partition, ())), self._next[partition])


class SessionTopic:
    """Sends reports on a session to the process that evaluates it. Raises RetryableError if that fails."""

    def __init__(self, producer: KafkaProducer, cluster: Cluster) -> None:
        self._producer = producer
        self._topic = cluster.traces

    def end_session(self, session_id: str, *, marked: bool, sender: str = "") -> None:
        """Send that a session was reported ended; `marked`: the store knows it."""
        arrived(self._send(session_id, ENDED, {"session_id": session_id, "marked": marked, "sender": sender}))

    def judge_again(self, outcomes: Sequence[Sequence[Evaluation]]) -> Future[int]:
        """Send which outcomes, by trace, are to be judged after all. Returns the number of traces."""
        by_session = sorted(outcomes, key=lambda of_trace: of_trace[0].session_id)
        # All together: to wait for one after the other takes longer than a caller waits.
        sent = [
            self._send(session_id, AGAIN, [[asdict(evaluation) for evaluation in of_trace] for of_trace in of_session])
            for session_id, of_session in groupby(by_session, key=lambda of_trace: of_trace[0].session_id)
        ]
        for evaluation in sent:
            arrived(evaluation)
        delivery: Future[int] = Future()
        delivery.set_result(len(outcomes))
        return delivery

    def _send(self, session_id: str, kind: bytes, document: object) -> Future[int]:
        body = json.dumps(document).encode()
        return self._producer.send(self._topic, session_id.encode(), body, [(KIND, kind)])
