"""Traces that run, as they are shown: read again when something has arrived, and only then."""

from agenteval_collector.evaluation.reading import TraceReader
from agenteval_collector.live.open_spans import OpenSpans
from agenteval_collector.serve.api.running_traces import RunningTraceReader

from otel_agenteval.model import GroundTruth, RunIdentity
from tests.support.assembling import Bench, Counting
from tests.support.clock import ManualClock
from tests.support.otlp import span, trace_id, traces, turn


class NoTruth:
    """Knows no ground truth, and counts how often it is asked: once for each reading."""

    def __init__(self) -> None:
        self.count = 0

    def truth(self, run: RunIdentity | None) -> GroundTruth:
        self.count += 1
        return GroundTruth()


def test_a_trace_is_read_again_when_something_arrived_and_only_then() -> None:
    bench, readings, shown = Bench(), NoTruth(), trace_id(1).hex()
    running = RunningTraceReader(
        bench.assembler, OpenSpans(ManualClock(), Counting()), TraceReader(truth=readings.truth)
    )

    def outputs() -> list[str | None]:
        view = running.trace(shown)
        assert view is not None
        return [each.output for each in view.turns]

    item = turn(1, "Where is it?", "On its way.", session="s")
    del item.attributes[-2:]  # Without the marker the trace stays open.
    bench.send(traces(item))
    assert [outputs() for _ in range(3)] == [["On its way."]] * 3
    assert readings.count == 1

    bench.send(traces(span(1, 2, parent=1)))
    assert [outputs() for _ in range(3)] == [["On its way."]] * 3
    assert readings.count == 2

    # The same id and as many spans, in other requests: as after a deletion.
    bench.assembler.forget([shown])
    other = turn(1, "Where is it?", "It is lost.", session="s")
    del other.attributes[-2:]
    bench.send(traces(other))
    bench.send(traces(span(1, 2, parent=1)))
    assert outputs() == ["It is lost."]
    assert readings.count == 3
