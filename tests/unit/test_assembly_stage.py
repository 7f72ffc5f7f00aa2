"""What the assembly says and does while the evaluation behind it is busy."""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

import pytest
from agenteval_collector.assembly.ports import ALONE
from agenteval_collector.assembly.stage import TRIMMED, AssemblyStage, Progress
from agenteval_collector.model.assembled_trace import AssembledTrace, ClosedBy
from agenteval_collector.model.logged_requests import OFFSET_BYTES, SPAN_BYTES, TRACE_BYTES, LoggedRequest
from agenteval_collector.runtime.errors import Overloaded, Unavailable
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.stores.sender_habits import HabitStore

from tests.support.assembling import SILENCE, Bench
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.otlp import START, logged, marked, span, trace_id, traces


class Kept:
    """A log of requests that are held in memory."""

    def __init__(self, requests: Iterable[LoggedRequest] = ()) -> None:
        self._requests = list(requests)

    def read(self, start: int) -> Iterable[LoggedRequest]:
        return [request for request in self._requests if request.offset >= start]

    def last_offset(self) -> int:
        return max((request.offset for request in self._requests), default=0)

    def get(self, offsets: Sequence[int]) -> Iterable[LoggedRequest]:
        return [request for request in self._requests if request.offset in offsets]

    def shutdown(self) -> None: ...

    def trim(self, below: int, older_than: int, batch: int, but: Collection[int] = ()) -> int:
        old = [each for each in self._requests if each.offset < below and each.received_at < older_than]
        gone = [each for each in old if each.offset not in but][:batch]
        self._requests = [each for each in self._requests if each not in gone]
        return len(gone)


class Busy:
    """An evaluation that has room once `room` is set; `asked` is set when it is offered a trace."""

    def __init__(self) -> None:
        self.asked, self.room = threading.Event(), threading.Event()
        self.taken: list[AssembledTrace] = []

    def take_trace(self, trace: AssembledTrace, timeout: float) -> bool:
        self.asked.set()
        if not self.room.wait(timeout):
            return False
        self.taken.append(trace)
        return True


class Habits(HabitStore):
    """Takes what was learned of senders; it refuses it `refusals` times."""

    def __init__(self, refusals: int) -> None:
        self.refused, self._refusals = threading.Event(), refusals
        self.saved: list[list[str]] = []

    def save(self, histories: Mapping[str, str]) -> None:
        if self._refusals:
            self._refusals -= 1
            self.refused.set()
            raise Unavailable("the disk is full")
        self.saved.append(list(histories.values()))


class Progressing:
    """A store that keeps how far the assembly has come; it refuses what was learned of senders `refusals` times."""

    def __init__(self, refusals: int = 0, checkpoint: int = 1) -> None:
        self.habits = Habits(refusals)
        self._checkpoint = checkpoint

    def checkpoint(self) -> int:
        return self._checkpoint

    def save_checkpoint(self, offset: int) -> None: ...


class Memory(MemoryGuard):
    """The memory of a process, of which `to_release` bytes have to be released."""

    def __init__(self) -> None:
        super().__init__(1, ManualClock())
        self.to_release = 0

    @property
    def excess(self) -> int:
        return self.to_release


def stage(
    evaluation: Busy,
    log: Kept,
    store: Progressing | None = None,
    bench: Bench | None = None,
    memory: Memory | None = None,
    max_pending_bytes: int = 1,
) -> AssemblyStage:
    bench = bench or Bench()
    return AssemblyStage(
        bench.assembler, tenant="default", log=log, traces=evaluation, progress=Progress(ALONE),
        store=store or Progressing(), open_spans=ALONE, clock=bench.clock, telemetry=bench.telemetry,
        memory=memory or Memory(),
        max_pending_bytes=max_pending_bytes, backlog=60.0, retention=0.0,
    )  # fmt: skip


def complete(number: int) -> LoggedRequest:
    return logged(number, traces(marked(span(number, 1), 1), process="p"))


def test_what_was_quiet_is_scored_while_the_log_is_still_read_again() -> None:
    evaluation = Busy()
    later = START + 3_000_000_000
    assembly = stage(
        evaluation, Kept([logged(1, traces(span(1, 1))), logged(2, traces(span(2, 1)), received_at=later)])
    )
    assembly.start()
    evaluation.room.set()
    assert evaluation.asked.wait(10)
    assembly.shutdown()
    assert [trace.trace_id for trace in evaluation.taken] == [trace_id(1).hex()]


def test_a_refusal_names_what_is_behind() -> None:
    evaluation = Busy()
    assembly = stage(evaluation, Kept())
    assembly.take_request(complete(1))
    with pytest.raises(Overloaded, match="behind with assembling"):
        assembly.admit()
    assembly.start()
    assert evaluation.asked.wait(10)
    assembly.take_request(complete(2))
    with pytest.raises(Overloaded, match="behind with evaluating"):
        assembly.admit()
    evaluation.room.set()
    assembly.shutdown()
    assert len(evaluation.taken) == 2


def test_what_takes_longer_than_the_backlog_allows_is_refused_until_it_is_worked_off() -> None:
    evaluation, bench = Busy(), Bench()
    assembly = stage(evaluation, Kept(), bench=bench, max_pending_bytes=1 << 20)
    assembly.start()
    assembly.take_request(complete(1))
    assert evaluation.asked.wait(10)
    bench.clock.advance(30)  # That is what one request takes.
    evaluation.room.set()
    eventually(lambda: assembly._pace.seconds_for(complete(1).size) == 30)
    evaluation.room.clear()
    evaluation.asked.clear()
    assembly.take_request(complete(2))
    assert evaluation.asked.wait(10)
    for number in (3, 4):
        assembly.admit()
        assembly.take_request(complete(number))
    assembly.admit()
    assembly.take_request(complete(5))
    with pytest.raises(Overloaded, match="behind with evaluating traces, by 90 s") as refused:
        assembly.admit()
    assert refused.value.retry_after == 30
    evaluation.room.set()
    eventually(lambda: assembly.waiting == 0)
    assembly.admit()
    assembly.shutdown()
    assert len(evaluation.taken) == 5


def test_what_is_learned_is_saved_at_the_stop_also_when_the_store_has_refused_it_before() -> None:
    store = Progressing(refusals=1)
    evaluation = Busy()
    evaluation.room.set()
    orphan = logged(1, traces(span(1, 1, parent=7)))
    later = logged(2, traces(span(2, 1)), received_at=START + 60_000_000_000)
    assembly = stage(evaluation, Kept([orphan, later]), store)
    assembly.start()
    assert store.habits.refused.wait(10)
    assembly.shutdown()
    assert store.habits.saved == [["-"]]


def test_a_partition_is_given_up_although_the_store_refuses_what_was_learned() -> None:
    evaluation, bench, store = Busy(), Bench(), Progressing(refusals=1_000_000)
    evaluation.room.set()
    assembly = stage(evaluation, Kept(), store, bench)
    assembly.start()
    assembly.take_request(logged(1, traces(span(1, 1, parent=7))))
    eventually(lambda: bench.assembler.open_traces == 1)
    bench.clock.advance(SILENCE)
    assembly.take_request(logged(2, traces(span(2, 1, parent=7))))
    assert store.habits.refused.wait(10)
    assembly.give_up([0]).wait(10)
    assert (bench.assembler.open_traces, bench.assembler.held, bench.assembler.checkpoints()) == (0, 0, {})
    assembly.shutdown()


def test_it_says_for_how_long_a_complete_trace_or_a_request_waits_and_can_still_work() -> None:
    evaluation, bench = Busy(), Bench()
    assembly = stage(evaluation, Kept(), bench=bench)
    assembly.take_request(complete(1)._replace(received_at=bench.clock.now()))
    assembly.start()
    assert evaluation.asked.wait(10)
    bench.clock.advance(61)
    assert assembly.late == 61
    assembly.take_request(complete(2)._replace(received_at=bench.clock.now() - 80_000_000_000))
    assert assembly.late == 80
    assert assembly.health is None
    evaluation.room.set()
    assembly.shutdown()
    assert len(evaluation.taken) == 2


def test_a_trace_that_goes_on_is_not_behind() -> None:
    evaluation, bench = Busy(), Bench()
    assembly = stage(evaluation, Kept(), bench=bench)
    assembly.take_request(logged(1, traces(span(1, 1, parent=7))))
    assembly.start()
    eventually(lambda: bench.assembler.open_traces == 1 and assembly.waiting == 0)
    bench.clock.advance(100)
    assert assembly.late == 0
    evaluation.room.set()
    assembly.shutdown()


def test_the_log_is_trimmed_of_any_number_of_requests_at_once() -> None:
    kept = Kept(logged(number, traces(span(number, 1)), received_at=START - 1) for number in range(5 * TRIMMED + 7))
    assembly = stage(Busy(), kept, Progressing(checkpoint=5 * TRIMMED + 7))
    assembly.start()
    eventually(lambda: not kept.read(0))
    assembly.shutdown()


def test_when_memory_runs_out_the_oldest_traces_are_scored_as_they_stand_and_no_more_than_need_be() -> None:
    evaluation, bench = Busy(), Bench()
    evaluation.room.set()
    one = TRACE_BYTES + OFFSET_BYTES + SPAN_BYTES + span(1, 1, parent=7).ByteSize()
    memory = Memory()
    assembly = stage(evaluation, Kept(), bench=bench, memory=memory)
    for number in range(1, 6):
        assembly.take_request(logged(number, traces(span(number, 1, parent=7))))
    assembly.start()
    eventually(lambda: bench.assembler.open_traces == 5)
    memory.to_release = 2 * one
    eventually(lambda: len(evaluation.taken) == 2)
    assembly.shutdown()
    assert [each.trace_id for each in evaluation.taken] == [trace_id(1).hex(), trace_id(2).hex()]
    assert all(each.closing is not None and each.closing.by is ClosedBy.MEMORY for each in evaluation.taken)
    assert bench.assembler.open_traces == 3
    assert bench.telemetry.counts["traces.released_early"] == 2
