"""Live detection says nothing that the reading of the complete trace does not say."""

from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.cli.recordings import read_recording
from agenteval_collector.config.findings import FindingsConfig
from agenteval_collector.live import live_loops as module
from agenteval_collector.live import stage as stage_module
from agenteval_collector.live.live_loops import FoundLive, LiveLoops
from agenteval_collector.live.stage import Announcer, LoopStage
from agenteval_collector.model.logged_requests import Arrival, Origin
from agenteval_collector.model.news import News, no_events
from agenteval_collector.stores.store import Store
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.conventions.identity import BY_CONVENTION
from otel_agenteval.conventions.spans import span_record
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import steps_of
from otel_agenteval.finding import Finding
from tests.support.assembling import Counting
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.looping import found_live, root_span, tool_span
from tests.support.otlp import span, span_id
from tests.support.recordings import name_of, recordings

RECORDINGS = recordings("corpus", "recorded")
# Its framework asks the model three times for an answer, and gets the same error.
RETRIED = "openinference-crewai--llmerror.otlp.pb"
FOREIGN = Origin(b"", "lib", None)


def live(rules: RuleBook | None = None) -> LiveLoops:
    return LiveLoops(rules or RuleBook(), BY_CONVENTION, ManualClock())


def arrivals(path: Path) -> list[Arrival]:
    return [
        Arrival(span, Origin(of_resource.resource.SerializeToString(), of_scope.scope.name, None))
        for recorded in read_recording(path)
        if recorded.signal == 1
        for of_resource in ExportTraceServiceRequest.FromString(recorded.body).resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def kinds(found: list[Finding]) -> list[str]:
    return [each.kind for each in found]


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_nobody_who_does_not_loop_is_told_of(path: Path) -> None:
    found = found_live(live(), *([arrival] for arrival in sorted(arrivals(path), key=_ended)))
    assert kinds(found) == (["error_storm"] if path.name == RETRIED else [])


def _ended(arrival: Arrival) -> int:
    return arrival.span.end_time_unix_nano


def test_spans_that_come_together_are_taken_in_the_order_in_which_they_ended() -> None:
    spans = [tool_span(1, number) for number in (4, 2, 3)]
    [found] = found_live(live(), [Arrival(each, FOREIGN) for each in spans])
    assert found.span_id == span_id(4).hex()
    assert found.metadata["span_ids"] == [span_id(number).hex() for number in (2, 3, 4)]


def test_a_span_that_comes_too_late_to_be_in_order_is_left_to_the_complete_trace() -> None:
    detectors = live()
    for number in (2, 4, 3):
        assert found_live(detectors, [Arrival(tool_span(1, number), FOREIGN)]) == []


def without(item: Span, key: str) -> Span:
    kept = [pair for pair in item.attributes if pair.key != key]
    del item.attributes[:]
    item.attributes.extend(kept)
    return item


@pytest.mark.parametrize(
    "spans",
    [
        pytest.param([without(tool_span(1, n), "gen_ai.tool.call.result") for n in (2, 3, 4)], id="results may differ"),
        pytest.param(
            [
                span(1, 9, parent=1, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="helper"),
                *(without(tool_span(1, n), "gen_ai.agent.name") for n in (12, 13, 14)),
            ],
            id="beside the run of an agent, it may be that agent's",
        ),
        pytest.param(
            [
                span(
                    1, n * 100,
                    gen_ai__operation__name="chat",
                    gen_ai__response__finish_reasons='["tool_calls"]',
                    gen_ai__output__messages='[{"role": "assistant", "parts": [{"type": "text", "content": '
                    '"Let me look that up for you."}]}]',
                )
                for n in (2, 3, 4)
            ],
            id="what is said beside a request for a tool",
        ),
        pytest.param([span(1, n, ended=False, gen_ai__operation__name="chat") for n in (2, 3, 4)], id="open spans"),
    ],
)  # fmt: skip
def test_doubts_are_left_to_the_complete_trace(spans: list[Span]) -> None:
    assert found_live(live(), [Arrival(each, FOREIGN) for each in spans]) == []


def test_the_session_and_the_agent_may_stand_on_another_span() -> None:
    detectors = live()
    calls = [without(tool_span(1, number), "gen_ai.agent.name") for number in (2, 3, 4)]
    opening = root_span(1, session="s-1")
    opening.end_time_unix_nano = opening.start_time_unix_nano + 1
    [found] = found_live(detectors, [Arrival(each, FOREIGN) for each in (opening, *calls)])
    assert (found.session_id, found.agent) == ("s-1", "planner")


def below(parent: int, number: int) -> Arrival:
    """A call by an agent that is not named, or not yet."""
    call = without(tool_span(1, number), "gen_ai.agent.name")
    call.parent_span_id = span_id(parent)
    return Arrival(call, FOREIGN)


def test_agents_without_names_are_told_apart_by_the_spans_they_stand_below() -> None:
    assert found_live(live(), [below(parent, 10 + parent) for parent in (1, 2, 3)]) == []
    assert kinds(found_live(live(), [below(1, number) for number in (2, 3, 4)])) == ["identical_call"]


def test_of_several_agents_the_one_that_loops_is_named() -> None:
    others = [
        span(1, n, gen_ai__operation__name="invoke_agent", gen_ai__agent__name=f"agent {n}", session__id="s" * 5000)
        for n in (8, 9)
    ]
    spans = [*others, *(tool_span(1, number) for number in (12, 13, 14))]
    [found] = found_live(live(), [Arrival(each, FOREIGN) for each in spans])
    assert found.agent == "planner"
    # What is too long for a finding is shortened when the trace is read.
    assert found.session_id == found.trace_id


def test_who_has_counted_from_the_middle_gives_all_that_it_has_found_of_a_kind() -> None:
    detectors = live()
    calls = [*(tool_span(1, number) for number in (2, 3, 4)), *(tool_span(1, n, result="x") for n in (5, 6, 7))]
    given: list[list[str | None]] = []
    for each in calls:
        found = FoundLive()
        detectors.observe([Arrival(each, FOREIGN)], found)
        given.append([loop.span_id for loop in found.recounted])
    first, second = span_id(4).hex(), span_id(7).hex()
    assert [spans for spans in given if spans] == [[first], [first, second]]


@pytest.mark.parametrize(("others", "is_remembered"), [(module.MAX_TRACES - 1, True), (module.MAX_TRACES, False)])
def test_memory_is_bounded_by_the_number_of_traces(others: int, is_remembered: bool) -> None:
    first, second, third = ([Arrival(tool_span(1, number), FOREIGN)] for number in (2, 3, 4))
    meanwhile = [[Arrival(tool_span(trace, 2), FOREIGN)] for trace in range(2, others + 2)]
    assert bool(found_live(live(), first, second, *meanwhile, third)) is is_remembered


def test_what_finds_no_room_is_counted_and_breaks_no_row(tmp_path: Path) -> None:
    announced, telemetry, clock = Announced(), Counting(), ManualClock()
    store = Store(tmp_path / "agenteval.db", clock, events_of=no_events)
    stage = LoopStage(live(), Announcer(store.findings, FindingsConfig(), announced, clock), telemetry)
    calls = [[Arrival(tool_span(1, number), FOREIGN)] for number in (2, 3, 4, 5, 6)]
    stage.take_arrivals(calls[0], stage_module.CAPACITY)
    stage.take_arrivals(calls[1], 1)
    stage.start()
    eventually(lambda: stage.waiting == 0)
    for call in calls[2:4]:
        stage.take_arrivals(call, 1)
    eventually(lambda: stage.waiting == 0)
    assert (telemetry.counts["queue.dropped loops"], announced.told) == (1, [])
    stage.take_arrivals(calls[4], 1)
    stage.shutdown()
    store.shutdown()
    assert kinds(announced.told) == ["identical_call"]


class Announced:
    """Keeps what is told."""

    def __init__(self) -> None:
        self.told: list[Finding] = []

    def take_news(self, news: News) -> None:
        self.told += news.to_tell


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("transfer_to_writer", "{}", []),
        ("transfer_to_writer", "null", []),
        ("Hand-off to Writer", "{}", []),
        ("transfer_to_savings", '{"eur": 5}', ["identical_call"]),
    ],
)
def test_whoever_is_handed_over_to_live_and_complete_detection_agree(
    tool: str, arguments: str, told: list[str]
) -> None:
    said: dict[str, Any] = {
        "gen_ai__tool__name": tool,
        "gen_ai__tool__call__arguments": arguments,
        "gen_ai__tool__call__result": "ok",
    }
    calls = [span(1, number, parent=1, gen_ai__operation__name="execute_tool", **said) for number in (2, 3, 4)]
    for number, call in enumerate(calls):
        call.start_time_unix_nano += number * 1_000_000
        call.end_time_unix_nano = call.start_time_unix_nano + 500_000
    arrived = [Arrival(each, FOREIGN) for each in [*calls, root_span(1)]]
    assert kinds(found_live(live(), arrived[:-1])) == told
    records = [span_record(each, {}, "lib") for each in [*calls, root_span(1)]]
    detectors = Detectors("s", "t", RuleBook())
    steps = steps_of(read_trace("t", records, ()))
    assert [loop.kind for step in steps for loop in detectors.observe(step)] == told
