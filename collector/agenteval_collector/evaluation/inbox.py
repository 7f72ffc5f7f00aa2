"""The inbox of the evaluation. It takes traces from assembly, judgements from the judge, and reports from outside."""

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
"""Bytes of complete traces that may wait. Beyond that assembly waits, and later senders are told to come back."""


@dataclass(frozen=True, slots=True)
class ReportedEnd:
    """The report that a session has ended. `marked` is true if the store knew the session and has noted its end.

    With a `sender`, only a trace with spans of this sender ends it: one that was on the way.
    """

    session_id: str
    marked: bool
    sender: str = ""


@dataclass(frozen=True, slots=True)
class Again:
    """The request to judge outcomes after all. `outcomes` has them by trace; `done` gives the number that had room."""

    outcomes: Sequence[Sequence[Evaluation]]
    done: Future[int] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """The sessions of these partitions now belong to this process, or with `is_given_up` to another one.

    This holds for all that is put into the inbox later. `done` is set once the partitions are given up.
    """

    partitions: Collection[int]
    is_given_up: bool
    done: Future[None] = field(default_factory=Future)


Item: TypeAlias = AssembledTrace | Judgement | ReportedEnd | Again | PartitionChange | Errand[Any]


class EvaluationInbox(Inbox[Item]):
    """The inbox of the evaluation stage. Sessions take turns.

    The inbox is made before its stage: the judge puts judgements into it, and the stage needs the judge.
    `session_of` returns the session that a trace names, or the trace's id if it names none.
    """

    def __init__(self, session_of: Callable[[AssembledTrace], str]) -> None:
        super().__init__(CAPACITY, FairQueue(_is_of))
        self.session_of = session_of

    def take_trace(self, trace: AssembledTrace, timeout: float) -> bool:
        """Take a complete trace. Return False if there was no room within `timeout` seconds."""
        # To find the session takes time. A trace in an empty inbox needs no turn, and most inboxes are empty.
        if len(self):
            trace.session = self.session_of(trace)
        return self.put(trace, trace.size, timeout=timeout)

    def take_judgement(self, judgement: Judgement) -> None:
        """Take a judgement, whether there is room or not.

        Judgements cannot pile up: only so many traces may wait for the judge. New traces wait meanwhile.
        """
        self.put_regardless(judgement, sum(len(exchange.data) for exchange in judgement.exchanges))

    def end_session(self, session_id: str, *, marked: bool, sender: str = "") -> None:
        """Take the report that a session has ended.

        `marked` is true if the store has noted the end. Otherwise the first trace of the session notes it; with a
        `sender`, the first one with spans of this sender.
        """
        self.put_regardless(ReportedEnd(session_id, marked, sender), 0)

    def judge_again(self, outcomes: Sequence[Sequence[Evaluation]]) -> Future[int]:
        """Take `outcomes`, by trace, to be judged after all. The result, set once committed, counts those with room."""
        again = Again(outcomes)
        self.put_regardless(again, 0)
        return again.done

    def take_partitions(self, partitions: Collection[int]) -> None:
        """Let this process evaluate the sessions of these partitions. This holds for all that is put in later."""
        self.put_regardless(PartitionChange(partitions, is_given_up=False), 0)

    def give_up_partitions(self, partitions: Collection[int]) -> Future[None]:
        """Let another process evaluate the sessions of these partitions.

        The result is set once everything that was put into the inbox before is committed.
        """
        change = PartitionChange(partitions, is_given_up=True)
        self.put_regardless(change, 0)
        return change.done

    def run_errand(self, errand: Errand[Any]) -> None:
        """Run an errand between two batches, once everything that was put in before is committed."""
        self.put_regardless(errand, 0)


def is_barrier(item: Item) -> bool:
    """Return whether all that came before the item must be committed first, and all that comes later must wait."""
    return isinstance(item, PartitionChange | Errand)


def _is_of(entry: tuple[Item, int]) -> Sequence[Hashable] | None:
    item, _ = entry
    if is_barrier(item):
        return None
    match item:
        case AssembledTrace():
            return (item.trace_id,) if item.session is None else (item.session, item.trace_id)
        case ReportedEnd():
            return (item.session_id,)
        case _:  # Judgements and `Again` are about traces that are stored, so they wait for nothing.
            return ()
