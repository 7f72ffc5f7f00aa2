"""What the assembly says and does while the evaluation behind it is busy."""

import threading
from collections.abc import Iterable, Mapping

import pytest
from agenteval_collector.assembly import AssemblyStage, Progress, Unconnected
from agenteval_collector.model.assembled import AssembledTrace
from agenteval_collector.model.senders import Habit
from agenteval_collector.model.telemetry import LoggedRequest
from agenteval_collector.runtime.clock import ManualClock
from agenteval_collector.runtime.errors import Overloaded, Unavailable

from tests.support.assembling import Bench
from tests.support.otlp import START, logged, marked, span, trace_id, traces


class Kept:
    """A log of requests that are held in memory."""

    def __init__(self, requests: Iterable[LoggedRequest] = ()) -> None:
        self._requests = list(requests)

    def read(self, start: int) -> Iterable[LoggedRequest]:
        return [request for request in self._requests if request.offset >= start]

    def last_offset(self) -> int:
        return max((request.offset for request in self._requests), default=0)

    def trim(self, below: int, older_than: int) -> int:
        return 0


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


class Progressing:
    """A store that keeps how far the assembly has come; it refuses what was learned of senders `refusals` times."""

    def __init__(self, refusals: int = 0) -> None:
        self.refused, self._refusals = threading.Event(), refusals
        self.saved: list[list[str]] = []

    @property
    def habits(self) -> "Progressing":
        return self

    def checkpoint(self) -> int:
        return 1

    def save_checkpoint(self, offset: int) -> None: ...

    def save(self, histories: Mapping[Habit, str]) -> None:
        if self._refusals:
            self._refusals -= 1
            self.refused.set()
            raise Unavailable("the disk is full")
        self.saved.append(list(histories.values()))


def stage(evaluation: Busy, log: Kept, store: Progressing | None = None) -> AssemblyStage:
    bench, alone = Bench(), Unconnected()
    return AssemblyStage(
        bench.assembler, log=log, evaluation=evaluation, progress=Progress(alone), store=store or Progressing(),
        open_spans=alone, clock=ManualClock(), telemetry=bench.telemetry, max_pending_bytes=1, retention=60.0,
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


def test_what_is_learned_is_saved_at_the_stop_also_when_the_store_has_refused_it_before() -> None:
    store = Progressing(refusals=1)
    evaluation = Busy()
    evaluation.room.set()
    orphan = logged(1, traces(span(1, 1, parent=7)))
    later = logged(2, traces(span(2, 1)), received_at=START + 60_000_000_000)
    assembly = stage(evaluation, Kept([orphan, later]), store)
    assembly.start()
    assert store.refused.wait(10)
    assembly.shutdown()
    assert store.saved == [["-"]]
