"""A new series of counters and histograms begins with 0 for each reader, and nothing is lost; levels are read anew."""

from threading import Thread
from typing import Any

import pytest
from agenteval_collector.emit.meter import NEW_FOR, Meter, exemplar_span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Meters:
    """A meter with a counter, a histogram and a level."""

    def __init__(self) -> None:
        self.now = 1_000_000_000
        self.meter = Meter(Resource({}), InstrumentationScope("test"), clock=lambda: self.now)
        self.meter.observable("level", "1", "A level.", self._levels)
        self.levels: list[tuple[float, dict[str, str]]] = [(1, {})]
        self.counter = self.meter.counter("failures", "1", "Failures.")
        self.times = self.meter.histogram("times", "s", "Times.", (1, 2.5))

    def _levels(self) -> list[tuple[float, dict[str, str]]]:
        if not self.levels:
            raise ValueError("there are none")
        return self.levels

    def points(self, reader: str | None, name: str) -> Any:
        [of_resource] = self.meter.read(reader).resource_metrics
        metrics = {metric.name: metric for metric in of_resource.scope_metrics[0].metrics}
        return metrics[name].data.data_points if name in metrics else []

    def read(self, reader: str | None) -> dict[str | None, float]:
        """The series of the counter by their version."""
        return {point.attributes.get("version"): point.value for point in self.points(reader, "failures")}


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


def test_who_only_looks_sees_everything_and_takes_no_zero_away() -> None:
    meters = Meters()
    meters.counter.add(3, {"version": "1"})
    assert meters.read(None) == {"1": 3}
    assert [meters.read("scrape"), meters.read("scrape")] == [{"1": 0}, {"1": 3}]


def test_to_a_reader_that_comes_late_old_series_are_no_increase() -> None:
    meters = Meters()
    meters.counter.add(100, {"version": "1"})
    meters.now += NEW_FOR + 1
    meters.counter.add(3, {"version": "2"})
    assert [meters.read("scrape"), meters.read("scrape")] == [{"1": 100, "2": 0}, {"1": 100, "2": 3}]


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


def test_a_histogram_counts_by_bucket_and_begins_with_zero_too() -> None:
    meters = Meters()
    for value in (0.5, 1, 2, 9):
        meters.times.record(value, {"version": "1"})
    [zero] = meters.points("scrape", "times")
    assert (zero.count, zero.sum, zero.bucket_counts, zero.exemplars) == (0, 0, [0, 0, 0], [])
    meters.now += 1
    [point] = meters.points("scrape", "times")
    assert (point.count, point.sum, point.bucket_counts) == (4, 12.5, [2, 1, 1])
    assert (point.min, point.max, point.explicit_bounds) == (0.5, 9, (1, 2.5))
    assert zero.start_time_unix_nano == point.start_time_unix_nano < point.time_unix_nano


def test_every_reader_gets_the_newest_example_of_each_bucket() -> None:
    meters = Meters()
    older, newer = exemplar_span("1" * 32, SPAN_ID), exemplar_span(TRACE_ID, SPAN_ID)
    for value, example in ((0.5, older), (0.7, newer), (0.9, None), (9, older)):
        meters.times.record(value, {}, example)
    for reader in ("scrape", "push"):
        meters.points(reader, "times")
        [point] = meters.points(reader, "times")
        found = [(each.value, f"{each.trace_id:x}", f"{each.span_id:x}") for each in point.exemplars]
        assert found == [(0.7, TRACE_ID.lstrip("0"), SPAN_ID), (9, "1" * 32, SPAN_ID)]


@pytest.mark.parametrize("ids", [(None, SPAN_ID), (TRACE_ID, None), ("", "")])
def test_what_is_on_no_span_has_no_example(ids: tuple[str | None, str | None]) -> None:
    assert exemplar_span(*ids) is None


def test_a_series_is_new_until_it_was_shown() -> None:
    meters = Meters()
    assert not meters.meter.has_new("push")
    meters.counter.add(1)
    assert meters.meter.has_new("push")
    meters.read("push")
    assert (meters.meter.has_new("push"), meters.meter.has_new("scrape")) == (False, True)


def test_a_level_is_read_anew_and_of_equal_attributes_the_last_one_is_shown() -> None:
    meters = Meters()
    meters.levels = [(1, {"version": "1"}), (2, {"version": "2"}), (3, {"version": "1"})]
    assert [(point.value, point.attributes) for point in meters.points("scrape", "level")] == [
        (3, {"version": "1"}),
        (2, {"version": "2"}),
    ]


def test_a_level_that_cannot_be_read_takes_nothing_else_away(caplog: pytest.LogCaptureFixture) -> None:
    meters = Meters()
    meters.counter.add(1)
    meters.levels = []
    assert meters.points("scrape", "level") == []
    assert meters.read(None) == {None: 1}
    assert "level cannot be read" in caplog.text
