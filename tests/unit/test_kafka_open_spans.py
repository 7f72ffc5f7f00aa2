"""Which of several processes reports that an agent has died."""

from types import SimpleNamespace
from typing import Any

import pytest
from agenteval_collector.live.open_spans import GONE_AFTER
from agenteval_collector.model.running_traces import SpanStart, StartsReport

from tests.support.assembling import Counting
from tests.support.clock import ManualClock
from tests.support.otlp import START, span_id, trace_id

pytest.importorskip("confluent_kafka", reason="needs the extra [kafka]")

from agenteval_collector.fleet.offsets import Offsets
from agenteval_collector.fleet.partitions import MOVED_WITHIN, PartitionSpans

TRACE = trace_id(1).hex()


class Process:
    """One of several processes. Each hears of all starts; the trace is in partition 0."""

    def __init__(self, clock: ManualClock) -> None:
        self.offsets = Offsets()
        cluster: Any = SimpleNamespace(spans="spans", partition_of=lambda topic, key: 0)
        store: Any = None
        self.spans = PartitionSpans(clock, Counting(), cluster, self.offsets, store)
        self.hear()

    def hear(self) -> None:
        start = SpanStart(
            trace_id=TRACE, span_id=span_id(1).hex(), name="chat", session_id="s", agent="planner", started_at=START
        )
        self.spans.take_starts(StartsReport(process_id="p", service=None, starts=[start], findings=(), all_open=True))


def test_a_death_is_reported_by_the_process_that_has_the_partition() -> None:
    clock = ManualClock()
    owner, other = Process(clock), Process(clock)
    owner.offsets.take([0])
    clock.advance(GONE_AFTER + 1)
    assert (owner.spans.take_died(), other.spans.take_died()) == ([TRACE], [])
    assert (owner.spans.take_died(), other.spans.take_died()) == ([], [])


def test_a_death_while_the_partition_moves_is_reported_once_by_the_process_that_gets_it() -> None:
    clock = ManualClock()
    process = Process(clock)
    clock.advance(GONE_AFTER + 1)
    assert process.spans.take_died() == []
    clock.advance(MOVED_WITHIN - 1)
    process.offsets.take([0])
    assert process.spans.take_died() == [TRACE]
    assert process.spans.take_died() == []


def test_who_gets_a_partition_much_later_leaves_its_deaths_to_the_process_that_had_it() -> None:
    clock = ManualClock()
    process = Process(clock)
    clock.advance(GONE_AFTER + 1)
    assert process.spans.take_died() == []
    clock.advance(MOVED_WITHIN)
    assert process.spans.take_died() == []
    process.offsets.take([0])
    assert process.spans.take_died() == []


def test_an_agent_that_was_heard_of_again_while_the_partition_moved_has_not_died() -> None:
    clock = ManualClock()
    process = Process(clock)
    clock.advance(GONE_AFTER + 1)
    assert process.spans.take_died() == []
    process.hear()
    process.offsets.take([0])
    assert process.spans.take_died() == []
    clock.advance(GONE_AFTER + 1)
    assert process.spans.take_died() == [TRACE]
