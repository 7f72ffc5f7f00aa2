"""Counters on the real SDK: a new series begins with 0 for each reader, and nothing is lost."""

from threading import Thread
from typing import Any

import pytest
from agenteval_collector.emit.counter import EventCounter, read_by
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader


class Meters:
    """A meter with two readers."""

    def __init__(self) -> None:
        self.readers = {"scrape": InMemoryMetricReader(), "push": InMemoryMetricReader()}
        provider = MeterProvider([*self.readers.values()], shutdown_on_exit=False)
        self.counter = EventCounter(provider.get_meter("test"), "failures", unit="1", description="Failures.")

    def read(self, reader: str) -> dict[str | None, float]:
        """The series by their version."""
        if reader == "scrape":
            with read_by(reader):
                data = self.readers[reader].get_metrics_data()
        else:
            data = self.readers[reader].get_metrics_data()
        if data is None:
            return {}
        [metric] = data.resource_metrics[0].scope_metrics[0].metrics
        points: Any = metric.data.data_points
        assert metric.data.is_monotonic
        return {point.attributes.get("version"): point.value for point in points}


def test_a_series_begins_with_zero_and_then_shows_everything() -> None:
    meters = Meters()
    meters.counter.add(3, {"version": "1"})
    assert meters.read("scrape") == {"1": 0}
    meters.counter.add(2, {"version": "1"})
    assert meters.read("scrape") == {"1": 5}
    meters.counter.add(1, {"version": "2"})
    assert meters.read("scrape") == {"1": 5, "2": 0}
    assert meters.read("scrape") == {"1": 5, "2": 1}


def test_each_reader_sees_the_zero_for_itself() -> None:
    meters = Meters()
    meters.counter.add(3, {"version": "1"})
    assert [meters.read("scrape"), meters.read("scrape")] == [{"1": 0}, {"1": 3}]
    assert [meters.read("push"), meters.read("push")] == [{"1": 0}, {"1": 3}]


def test_the_order_of_attributes_makes_no_other_series() -> None:
    meters = Meters()
    meters.counter.add(1, {"version": "1", "agent": "a"})
    meters.counter.add(1, {"agent": "a", "version": "1"})
    meters.counter.add(1)
    meters.read("push")
    assert meters.read("push") == {"1": 2, None: 1}


@pytest.mark.parametrize("threads", [4])
def test_no_increment_of_several_threads_is_lost(threads: int) -> None:
    meters = Meters()

    def add() -> None:
        for number in range(1000):
            meters.counter.add(1, {"version": str(number % 3)})

    running = [Thread(target=add) for _ in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join(timeout=30)
    meters.read("scrape")
    assert sum(meters.read("scrape").values()) == 1000 * threads
