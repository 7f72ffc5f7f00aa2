"""Traces that run, as they are shown: read again when something has arrived, and only then."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agenteval_collector.evaluation.reading import TraceReader
from agenteval_collector.evaluation.running_traces import RunningTraceReader
from agenteval_collector.findings.loops.open_spans import OpenSpans
from agenteval_collector.model.assembled_trace import AssembledTrace

from otel_agenteval.model import Trace
from tests.support.assembling import Counting
from tests.support.clock import ManualClock
from tests.support.otlp import turn
from tests.support.scoring import assembled


@dataclass
class One:
    """One open trace."""

    trace: AssembledTrace

    def newest(self, count: int) -> Sequence[AssembledTrace]:
        return [self.trace]

    def peek(self, trace_id: str) -> AssembledTrace | None:
        return self.trace


class Reading:
    """Reads traces, and counts how often."""

    def __init__(self) -> None:
        self.count = 0
        self._read = TraceReader()

    def __call__(self, trace: AssembledTrace) -> Trace:
        self.count += 1
        return self._read(trace)


def test_a_trace_is_read_again_when_something_arrived_and_only_then() -> None:
    first = assembled(turn(1, "Where is it?", "On its way.", session="s"))
    shown, read = One(first), Reading()
    running = RunningTraceReader(shown, OpenSpans(ManualClock(), Counting()), read)
    for _ in range(3):
        view = running.trace(first.trace_id)
        assert view is not None
        assert view.turns[0].output == "On its way."
    assert read.count == 1

    # The same id and as many spans, in another request: as after a deletion.
    other = assembled(turn(1, "Where is it?", "It is lost.", session="s"))
    shown.trace = replace(other, offsets=[first.offsets[-1] + 1])
    view = running.trace(first.trace_id)
    assert view is not None
    assert view.turns[0].output == "It is lost."
    assert read.count == 2
