"""The evaluation's inbox: traces from assembly, judgements from the judge, and reports from outside."""

from collections.abc import Callable, Collection, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agenteval_collector.evaluation.fair_queue import FairQueue
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.judge_jobs import Judgement
from agenteval_collector.runtime.errand import Errand
from agenteval_collector.runtime.inbox import Inbox
from otel_agenteval.outcome import Evaluation

CAPACITY = 64 * 1024 * 1024
"""Bytes of complete traces that may wait; then assembly waits, and then senders are told to come back later."""


@dataclass(frozen=True, slots=True)
class ReportedEnd:
    """A session was reported ended; `marked`: the store knew it, and holds that."""

    session_id: str
    marked: bool


@dataclass(frozen=True, slots=True)
class Again:
    """Outcomes that somebody wants judged after all, by trace; `done` is the number of traces that had room."""

    found: Sequence[Sequence[Evaluation]]
    done: Future[int] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """Partitions of all sessions that this process evaluates from now on, or that another one does (`is_given_up`)."""

    partitions: Collection[int]
    is_given_up: bool
    done: Future[None] = field(default_factory=Future)


Item: TypeAlias = AssembledTrace | Judgement | ReportedEnd | Again | PartitionChange | Errand[Any]


class EvaluationInbox(Inbox[Item]):
    """Made before the stage that reads it: the judge, which hands its judgements to it, stands behind that stage.

    Sessions take turns. `session_of` returns the session that a trace names, or the trace's id where it names none.
    """

    def __init__(self, session_of: Callable[[AssembledTrace], str]) -> None:
        super().__init__(CAPACITY, FairQueue(_is_of))
        self._session_of = session_of

    def take_trace(self, trace: AssembledTrace, timeout: float) -> bool:
        """Take a complete trace; False where there was no room within `timeout` seconds."""
        # What comes first needs no turn, and most inboxes are empty.
        if len(self):
            trace.session = self._session_of(trace)
        return self.put(trace, trace.size, timeout=timeout)

    def take_judgement(self, judgement: Judgement) -> None:
        """Take what the judge says: of no more traces than may wait for it, and new traces wait meanwhile."""
        self.put_regardless(judgement, sum(len(each.data) for each in judgement.exchanges))

    def end_session(self, session_id: str, *, marked: bool) -> None:
        """Take the report that a session has ended; `marked`: the store knows it, else its first trace marks it."""
        self.put_regardless(ReportedEnd(session_id, marked), 0)

    def judge_again(self, found: Sequence[Sequence[Evaluation]]) -> Future[int]:
        """Take outcomes by trace that are to be judged after all. Returns how many had room, once committed."""
        again = Again(found)
        self.put_regardless(again, 0)
        return again.done

    def take_partitions(self, partitions: Collection[int]) -> None:
        """Go on with the sessions of these partitions."""
        self.put_regardless(PartitionChange(partitions, is_given_up=False), 0)

    def give_up_partitions(self, partitions: Collection[int]) -> Future[None]:
        """Forget the sessions of these partitions; done once all that was handed over before is committed."""
        change = PartitionChange(partitions, is_given_up=True)
        self.put_regardless(change, 0)
        return change.done

    def run_errand(self, errand: Errand[Any]) -> None:
        """Run it between two batches, when all that was handed over before is committed."""
        self.put_regardless(errand, 0)


def _is_of(entry: tuple[Item, int]) -> Sequence[Hashable] | None:
    item, _ = entry
    match item:
        case AssembledTrace():
            return (item.trace_id,) if item.session is None else (item.session, item.trace_id)
        case ReportedEnd():
            return (item.session_id,)
        case PartitionChange() | Errand():
            return None
        case _:  # They are about traces that are stored.
            return ()
