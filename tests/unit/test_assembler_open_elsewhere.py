"""A trace of which a span is open that has not arrived: its process has reported its start."""

from collections.abc import Iterable, Sequence

import pytest
from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.ports import Unconnected
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.config.settings import AssemblyConfig
from agenteval_collector.model.assembled_trace import AssembledTrace, Death
from agenteval_collector.model.logged_requests import ARRIVAL_BYTES, DECODED, Arrival, LoggedRequest
from agenteval_collector.runtime.errors import Unavailable

from tests.support.assembling import Counting, spans_of
from tests.support.clock import ManualClock
from tests.support.otlp import logged, marked, span, span_id, trace_id, traces

CONFIG = AssemblyConfig(max_open_bytes=1 << 30, max_recent_bytes=0)
SETTLE, MAX_AGE = CONFIG.settle, CONFIG.max_age


class Open(Unconnected):
    """An assembler, and the traces that go on elsewhere."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.going_on = {trace_id(1).hex()}
        self.deaths: dict[str, Death] = {}
        self.known: dict[str, tuple[int, frozenset[int]]] = {}
        self.log: dict[int, LoggedRequest] = {}
        self.arrived: list[tuple[Sequence[Arrival], int]] = []
        self.ended: list[bytes] = []
        self.silent = False
        self.assembler = Assembler(
            self.clock,
            Counting(),
            Senders(),
            CONFIG,
            store=self,
            log=self,
            loops=self,
            open_spans=self,
        )

    def known_traces(self, trace_ids: Sequence[str]) -> dict[str, tuple[int, frozenset[int]]]:
        return {each: self.known[each] for each in trace_ids if each in self.known}

    def get(self, offsets: Sequence[int]) -> list[LoggedRequest]:
        if self.silent:
            raise Unavailable("the log does not answer")
        return [self.log[offset] for offset in offsets if offset in self.log]

    def take_arrivals(self, arrivals: Sequence[Arrival], size: int) -> None:
        self.arrived.append((arrivals, size))

    def take_ended(self, arrivals: Iterable[Arrival]) -> None:
        self.ended += [each.span.span_id for each in arrivals]

    def goes_on(self, trace_id: str) -> bool:
        return trace_id in self.going_on

    def death(self, trace_id: str) -> Death | None:
        return self.deaths.get(trace_id)

    def dies(self, number: int) -> list[AssembledTrace]:
        trace = trace_id(number).hex()
        self.deaths[trace] = Death(
            reason="the agent died", session_id="s", agent="planner", service=None, started_at=1, heard_at=2,
            open_spans=[],
        )  # fmt: skip
        return self.assembler.complete_died([trace], "default")

    def due_after(self, seconds: float) -> list[str]:
        self.clock.advance(seconds)
        return [trace.trace_id for trace in self.assembler.due()]


def test_it_waits_for_as_long_as_it_goes_on() -> None:
    bench = Open()
    bench.assembler.take_requests([logged(1, traces(span(1, 1), span(2, 1)))])
    assert bench.due_after(SETTLE) == [trace_id(2).hex()]
    for _ in range(5):
        assert bench.due_after(1.0) == []
    bench.going_on.clear()
    assert bench.due_after(1.0) == [trace_id(1).hex()]


def test_it_does_not_wait_longer_than_for_any_trace() -> None:
    bench = Open()
    bench.assembler.take_requests([logged(1, traces(span(1, 1)))])
    assert bench.due_after(MAX_AGE - 1) == []
    assert bench.due_after(1) == [trace_id(1).hex()]


def test_every_span_arrives_once_with_the_size_of_its_requests() -> None:
    bench = Open()
    first, again = logged(1, traces(span(1, 1), span(1, 2))), logged(2, traces(span(1, 2), span(1, 3)))
    bench.assembler.take_requests([first])
    bench.assembler.take_requests([again])
    assert [([each.span.span_id for each in arrivals], size) for arrivals, size in bench.arrived] == [
        ([span_id(1), span_id(2)], DECODED * len(first.body) + 2 * ARRIVAL_BYTES),
        ([span_id(3)], DECODED * len(again.body) + ARRIVAL_BYTES),
    ]


def test_spans_of_a_trace_that_is_complete_at_once_are_not_looked_at_live() -> None:
    bench = Open()
    [whole] = bench.assembler.take_requests([logged(1, traces(span(1, 1), marked(span(2, 2), 1, "p-1")))])
    assert whole.trace_id == trace_id(2).hex()
    assert [[each.span.trace_id for each in arrivals] for arrivals, _ in bench.arrived] == [[trace_id(1)]]
    assert bench.ended == [span_id(1), span_id(2)]


def test_spans_of_a_plain_trace_that_came_whole_are_not_looked_at_live() -> None:
    bench = Open()
    bench.assembler.take_requests([logged(1, traces(span(2, 1), span(2, 2, parent=1), span(3, 3, parent=4)))])
    assert [[each.span.trace_id for each in arrivals] for arrivals, _ in bench.arrived] == [[trace_id(3)]]
    assert bench.due_after(SETTLE) == [trace_id(2).hex()]


def test_a_trace_that_goes_on_against_all_appearance_is_looked_at_from_its_beginning() -> None:
    bench = Open()
    for number in (1, 2, 3):
        bench.assembler.take_requests([logged(number, traces(span(2, number)))])
    assert [[each.span.span_id for each in arrivals] for arrivals, _ in bench.arrived] == [
        [span_id(1), span_id(2)],
        [span_id(3)],
    ]


def test_spans_of_a_trace_that_went_on_are_looked_at_live_to_its_end() -> None:
    bench = Open()
    bench.assembler.take_requests([logged(1, traces(span(2, 2, parent=1)))])
    bench.assembler.take_requests([logged(2, traces(span(2, 1)))])
    assert [[each.span.span_id for each in arrivals] for arrivals, _ in bench.arrived] == [[span_id(2)], [span_id(1)]]


def test_every_span_arrives_once_though_the_log_did_not_answer_for_one_behind_it() -> None:
    bench = Open()
    bench.log[1] = logged(1, traces(span(2, 1, parent=4)))
    bench.known[trace_id(2).hex()] = (1, frozenset({1}))
    batch = [logged(2, traces(span(1, 2))), logged(3, traces(span(2, 3, parent=4)))]
    bench.silent = True
    for _ in range(2):
        with pytest.raises(Unavailable):
            bench.assembler.take_requests(batch)
    bench.silent = False
    bench.assembler.take_requests(batch)
    bench.assembler.take_requests([])
    assert bench.ended == [span_id(2), span_id(3)]
    assert [each.span.span_id for arrivals, _ in bench.arrived for each in arrivals] == [span_id(2), span_id(3)]


def test_a_trace_whose_agent_died_is_complete_at_once() -> None:
    bench = Open()
    bench.assembler.take_requests([logged(1, traces(span(1, 1)))])
    [trace] = bench.dies(1)
    assert (trace.revision, trace.complete, spans_of(trace), trace.death) == (
        1,
        True,
        [1],
        bench.deaths[trace.trace_id],
    )
    bench.going_on.clear()
    assert bench.due_after(SETTLE) == []


def test_a_trace_of_which_nothing_has_arrived_is_complete_and_holds_nothing_back() -> None:
    bench = Open()
    bench.assembler.take_requests([logged(1, traces(span(2, 1)))])
    bench.due_after(SETTLE)
    bench.assembler.scored(trace_id(2).hex(), 1)
    [trace] = bench.dies(1)
    assert (trace.revision, spans_of(trace), trace.offsets) == (1, [], [])
    assert bench.assembler.checkpoints() == {0: 2}
    bench.assembler.scored(trace.trace_id, 1)
    assert bench.assembler.peek(trace.trace_id) is None


def test_who_was_taken_for_dead_makes_a_new_revision_when_spans_come() -> None:
    bench = Open()
    bench.dies(1)
    bench.deaths.clear()
    bench.going_on.clear()
    bench.assembler.take_requests([logged(1, traces(span(1, 1)))])
    bench.clock.advance(SETTLE)
    [trace] = bench.assembler.due()
    assert (trace.revision, spans_of(trace), trace.death) == (2, [1], None)


def test_a_trace_that_was_scored_before_its_agent_died_is_told_again_with_all_it_had() -> None:
    bench = Open()
    bench.log[1] = logged(1, traces(span(1, 1)))
    bench.known[trace_id(1).hex()] = (1, frozenset({1}))
    [trace] = bench.dies(1)
    assert (trace.revision, spans_of(trace)) == (2, [1])


def test_a_trace_that_the_log_has_forgotten_is_left_as_it_is() -> None:
    bench = Open()
    bench.known[trace_id(1).hex()] = (1, frozenset({1}))
    assert bench.dies(1) == []
