"""A trace of which a span is open that has not arrived: its process has reported its start."""

from collections.abc import Sequence

from agenteval_collector.assembly import Assembler
from agenteval_collector.clock import ManualClock
from agenteval_collector.pipeline import Arrival

from tests.support.assembling import Counting
from tests.support.otlp import logged, span, span_id, trace_id, traces

QUIET, MAX_AGE = 2.0, 600.0


class Open:
    """An assembler, and the traces that go on elsewhere."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.going_on = {trace_id(1).hex()}
        self.arrived: list[tuple[Sequence[Arrival], int]] = []
        self.assembler = Assembler(
            self.clock,
            Counting(),
            lambda _: {},
            lambda _: (),
            lambda arrivals, size: self.arrived.append((arrivals, size)),
            lambda trace: trace in self.going_on,
            quiet_period=QUIET,
            max_age=MAX_AGE,
            max_open_bytes=1 << 30,
        )

    def due_after(self, seconds: float) -> list[str]:
        self.clock.advance(seconds)
        return [trace.trace_id for trace in self.assembler.due()]


def test_it_waits_for_as_long_as_it_goes_on() -> None:
    bench = Open()
    bench.assembler.take([logged(1, traces(span(1, 1), span(2, 1)))])
    assert bench.due_after(QUIET) == [trace_id(2).hex()]
    for _ in range(5):
        assert bench.due_after(QUIET) == []
    bench.going_on.clear()
    assert bench.due_after(QUIET) == [trace_id(1).hex()]


def test_it_does_not_wait_longer_than_for_any_trace() -> None:
    bench = Open()
    bench.assembler.take([logged(1, traces(span(1, 1)))])
    assert bench.due_after(MAX_AGE - 1) == []
    assert bench.due_after(1) == [trace_id(1).hex()]


def test_every_span_arrives_once_with_the_size_of_its_requests() -> None:
    bench = Open()
    first, again = logged(1, traces(span(1, 1), span(1, 2))), logged(2, traces(span(1, 2), span(1, 3)))
    bench.assembler.take([first])
    bench.assembler.take([again])
    assert [([each.span.span_id for each in arrivals], size) for arrivals, size in bench.arrived] == [
        ([span_id(1), span_id(2)], len(first.body)),
        ([span_id(3)], len(again.body)),
    ]
