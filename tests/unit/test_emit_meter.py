"""A new series of counters and histograms begins with 0 for each reader, and nothing is lost; levels are read anew."""

from threading import Thread
from typing import Any

import pytest
from agenteval_collector.emit.meter import IDLE_FOR, NEW_FOR, Meter, SeriesBudget, exemplar_span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Meters:
    """A meter with a counter, a histogram and a level."""

    def __init__(self, max_series: int = 1000) -> None:
        self.now = 1_000_000_000
        self.budget = SeriesBudget(max_series)
        self.meter = Meter(Resource({}), InstrumentationScope("test"), clock=lambda: self.now, budget=self.budget)
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


def call_of(agent: int, version: int, tool: int) -> dict[str, str]:
    return {"gen_ai.agent.name": f"a{agent}", "service.version": f"v{version}", "gen_ai.tool.name": f"t{tool}"}


def test_series_stay_within_their_budget_and_no_count_is_lost() -> None:
    meters = Meters(max_series=200)
    calls = [call_of(agent, version, tool) for agent in range(20) for version in range(3) for tool in range(30)]
    for call in calls:
        meters.counter.add(1, call)
        meters.times.record(1, call)
    counted, timed = meters.points(None, "failures"), meters.points(None, "times")
    assert sum(each.value for each in counted) == sum(each.count for each in timed) == len(calls)
    # A histogram of two bounds has five lines.
    assert len(counted) + 5 * len(timed) == meters.budget.used
    assert meters.budget.used <= 200 + 5
    assert meters.budget.merged > 0


def test_tools_are_merged_before_versions_and_versions_before_agents() -> None:
    meters = Meters(max_series=100)
    for tool in range(90):
        meters.counter.add(1, call_of(1, 1, tool))
    for version in range(2, 20):
        meters.counter.add(1, call_of(1, version, 0))
    for agent in range(2, 20):
        meters.counter.add(1, call_of(agent, 1, 0))
    shown = [tuple(each.attributes[key] for key in call_of(0, 0, 0)) for each in meters.points(None, "failures")]
    tools = {(agent, version) for agent, version, tool in shown if tool == "_other"}
    assert shown.count(("a1", "v1", "_other")) == 1, "the tools that came last share a series"
    assert ("a1", "v2") in tools, "a version keeps its name where its tool has none"
    assert ("a1", "_other") in tools, "and then the agent"
    assert ("_other", "_other") in tools


def test_a_series_keeps_counting_for_itself_once_it_is_there() -> None:
    meters = Meters(max_series=20)
    for tool in range(40):
        meters.counter.add(1, call_of(1, 1, tool))
    meters.counter.add(1, call_of(1, 1, 0))
    values = {each.attributes["gen_ai.tool.name"]: each.value for each in meters.points(None, "failures")}
    assert values["t0"] == 2


def test_idle_series_make_room_and_begin_with_zero_when_they_return() -> None:
    meters = Meters(max_series=20)
    for tool in range(16):
        meters.counter.add(5, call_of(1, 1, tool))
    assert len(meters.points("scrape", "failures")) == 16
    meters.now += IDLE_FOR + 1
    meters.counter.add(1, call_of(1, 1, 0))
    meters.counter.add(1, call_of(2, 1, 0))
    names = [(each.attributes["gen_ai.agent.name"], each.attributes["gen_ai.tool.name"], each.value)
             for each in meters.points("scrape", "failures")]  # fmt: skip
    assert names == [("a1", "t0", 6), ("a2", "t0", 0)]
    assert meters.budget.dropped == 15
    meters.counter.add(1, call_of(1, 1, 7))
    assert [each.value for each in meters.points("scrape", "failures")] == [6, 1, 0]
    assert [each.value for each in meters.points("scrape", "failures")] == [6, 1, 1]


def test_series_without_attributes_are_never_dropped() -> None:
    meters = Meters(max_series=5)
    meters.counter.add(0)
    meters.now += IDLE_FOR + 1
    for tool in range(10):
        meters.counter.add(1, call_of(1, 1, tool))
    assert {} in [dict(each.attributes) for each in meters.points(None, "failures")]
