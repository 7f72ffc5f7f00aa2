"""Jumps of the time of day: what waits, waits by the monotonic clock."""

import re
from pathlib import Path

import pytest
from agenteval_collector.runtime.clock import SystemClock

from tests.support.eventually import eventually
from tests.support.otlp import marked, span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

HOUR = 3600 * 1_000_000_000


class JumpingClock(SystemClock):
    """The machine's clock, whose time of day was set by `hours`."""

    hours = 0

    def now(self) -> int:
        return super().now() + self.hours * HOUR


def score(collector: RunningCollector, number: int) -> None:
    collector.send(traces(turn(number, f"question {number}", f"answer {number}", session=f"s-{number}")))
    collector.scored(trace_id(number).hex())


@pytest.mark.parametrize("hours", [5, -5])
def test_a_jump_closes_no_trace_and_ends_no_session(tmp_path: Path, hours: int) -> None:
    clock = JumpingClock()
    with RunningCollector(tmp_path, clock, assembly={"silence": 60.0}, session={"idle": 600.0}) as collector:
        collector.send(traces(span(1, 2, parent=1), process="p"))
        score(collector, 2)
        clock.hours = hours
        # Between two traces the evaluation looks for sessions that are over.
        score(collector, 3)
        score(collector, 4)
        assert not collector.get(f"/api/v1/traces/{trace_id(1).hex()}")["complete"]
        assert not re.search(r"^agenteval_sessions_total{", collector.get("/metrics"), re.MULTILINE)
        clock.hours = 0
        collector.send(traces(marked(span(1, 1), 2, "p"), process="p"))
        whole = collector.scored(trace_id(1).hex())
        assert (whole["revision"], whole["span_count"], whole["partial"]) == (1, 2, False)


def test_retention_goes_on_after_a_jump_back_and_takes_what_was_received_before_it_once_that_is_old(
    tmp_path: Path,
) -> None:
    clock = JumpingClock()
    with RunningCollector(tmp_path, clock, log={"retention": 0.2}) as collector:
        requests = collector.service.pipeline.base.storage.requests
        clock.hours = 1
        score(collector, 1)
        clock.hours = 0
        score(collector, 2)
        score(collector, 3)
        eventually(lambda: not list(requests.get([2])))
        assert list(requests.get([1])), "it says that it was received in an hour"
        clock.hours = 2
        eventually(lambda: not list(requests.get([1])))
