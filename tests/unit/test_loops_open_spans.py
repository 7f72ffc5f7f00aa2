"""What is open, and who is gone; time is moved by hand."""

import pytest
from agenteval_collector.live import open_spans as module
from agenteval_collector.live.open_spans import OpenSpans
from agenteval_collector.model.logged_requests import Arrival, Origin
from agenteval_collector.model.running_traces import SpanStart, StartsReport

from tests.support.assembling import Counting
from tests.support.clock import ManualClock
from tests.support.findings import loop_found
from tests.support.otlp import START, marked, span, span_id, trace_id

PROCESS = Origin(b"", "lib", "p-1")
TRACE = trace_id(1).hex()


class Scene:
    """Open spans, their clock, and reports in a line each."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.telemetry = Counting()
        self.spans = OpenSpans(self.clock, self.telemetry)

    def start(self, *numbers: int, trace: int = 1, process: str = "p-1", all_open: bool = False) -> None:
        starts = [
            SpanStart(
                trace_id=trace_id(trace).hex(),
                span_id=span_id(number).hex(),
                name=f"span {number}",
                session_id="s-1",
                agent="planner",
                started_at=START + number,
            )
            for number in numbers
        ]
        report = StartsReport(process_id=process, service="shop", starts=starts, findings=(), all_open=all_open)
        self.spans.take_starts(report)

    def open(self) -> list[str]:
        return [each.name for each in self.spans.of_trace(TRACE)]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_span_is_open_from_its_report_to_its_arrival(scene: Scene) -> None:
    scene.start(1, 2)
    assert scene.open() == ["span 1", "span 2"]
    scene.spans.take_ended([Arrival(span(1, 2), PROCESS)])
    assert scene.open() == ["span 1"]
    [running] = scene.spans.running()
    assert (running.trace_id, running.session_id, running.agent, running.service) == (TRACE, "s-1", "planner", "shop")
    scene.spans.take_ended([Arrival(span(1, 1), PROCESS)])
    assert scene.open() == []
    assert scene.spans.running() == []
    assert scene.spans.begun(TRACE) is None


def test_a_span_that_arrived_before_its_report_is_not_open(scene: Scene) -> None:
    scene.spans.take_ended([Arrival(span(1, 2), PROCESS)])
    scene.start(1, 2)
    assert scene.open() == ["span 1"]


def test_a_span_that_has_not_ended_is_still_open_when_it_arrives(scene: Scene) -> None:
    scene.start(2)
    scene.spans.take_ended([Arrival(span(1, 2, ended=False), PROCESS)])
    assert scene.open() == ["span 2"]


def test_the_span_that_closes_a_trace_closes_all_of_its_process(scene: Scene) -> None:
    """One of them may have been left out of the export, and will never arrive."""
    scene.start(1, 2)
    scene.start(3, process="p-2")
    scene.spans.take_ended([Arrival(marked(span(1, 1), 1, "p-1"), PROCESS)])
    assert scene.open() == ["span 3"]


def test_a_process_that_says_nothing_is_taken_for_gone_until_it_speaks(scene: Scene) -> None:
    scene.start(1, 2)
    scene.clock.advance(module.GONE_AFTER)
    assert scene.spans.stopped(TRACE) is None
    assert scene.spans.goes_on(TRACE)
    scene.clock.advance(1)
    assert scene.spans.stopped(TRACE) == (
        "the agent died in the middle: nothing was heard of its process after 2023-11-14T22:13:20Z, when there were "
        "open: span 2 (since 2023-11-14T22:13:20Z), span 1 (since 2023-11-14T22:13:20Z)"
    )
    scene.start()
    assert scene.spans.stopped(TRACE) is None


def test_a_death_is_told_once_and_ends_the_trace_as_soon_as_that_is_stored(scene: Scene) -> None:
    scene.start(1)
    assert scene.spans.take_died() == []
    scene.clock.advance(module.GONE_AFTER + 1)
    assert scene.spans.goes_on(TRACE), "until it was told"
    scene.spans.take_scored(TRACE)
    assert [each.trace_id for each in scene.spans.running()] == [TRACE], "a revision of before tells of no death"
    assert scene.spans.take_died() == [TRACE]
    assert scene.spans.take_died() == []
    assert not scene.spans.goes_on(TRACE)
    assert [each.trace_id for each in scene.spans.running()] == [TRACE]
    scene.spans.take_scored(TRACE)
    assert scene.spans.running() == []
    death = scene.spans.death(TRACE)
    assert death is not None
    assert (death.session_id, death.agent, death.service) == ("s-1", "planner", "shop")
    assert [each.name for each in death.open_spans] == ["span 1"]


def test_who_was_taken_for_dead_may_come_back_and_die_again(scene: Scene) -> None:
    scene.start(1)
    scene.clock.advance(module.GONE_AFTER + 1)
    assert scene.spans.take_died() == [TRACE]
    scene.spans.take_scored(TRACE)
    scene.start()
    assert scene.spans.goes_on(TRACE)
    assert scene.spans.death(TRACE) is None
    assert [each.trace_id for each in scene.spans.running()] == [TRACE]
    scene.clock.advance(module.GONE_AFTER + 1)
    assert scene.spans.take_died() == [TRACE]


def test_a_death_names_what_was_open_the_innermost_first_and_not_all(scene: Scene) -> None:
    scene.start(*range(1, 6))
    scene.clock.advance(module.GONE_AFTER + 1)
    reason = scene.spans.stopped(TRACE) or ""
    places = [reason.find(name) for name in ("span 5", "span 4", "span 3", "2 more")]
    assert places == sorted(places)
    assert -1 not in places
    assert "span 2" not in reason


def test_it_is_known_who_takes_part_in_a_session(scene: Scene) -> None:
    scene.start(1)
    scene.start(2, trace=2, process="p-2")
    assert scene.spans.processes_in("s-1") == {"p-1", "p-2"}
    assert scene.spans.processes_in("s-2") == frozenset()
    assert scene.spans.processes_in(TRACE) == {"p-1"}, "a trace whose session is not known is its own"


@pytest.mark.parametrize(
    ("said", "agent"),
    [
        pytest.param("clerk", "clerk", id="what the report says"),
        pytest.param(None, "planner", id="else what the start of the span said"),
    ],
)
def test_a_loop_ahead_of_its_span_is_on_an_agent(scene: Scene, said: str | None, agent: str) -> None:
    scene.start(1)
    loop = loop_found(trace_id=TRACE, span_id=span_id(1).hex(), agent=said)
    report = StartsReport(process_id="p-1", service="shop", starts=(), findings=(loop,))
    assert [found.agent for found in scene.spans.take_starts(report)] == [agent]


def test_a_loop_on_a_span_that_is_over_is_on_the_agent_that_it_names(scene: Scene) -> None:
    loop = loop_found(trace_id=TRACE, kind="budget", agent="clerk")
    report = StartsReport(process_id="p-1", service="shop", starts=(), findings=(loop,))
    assert [found.agent for found in scene.spans.take_starts(report)] == ["clerk"]


def test_a_span_is_open_in_the_process_that_told_of_it_first(scene: Scene) -> None:
    scene.start(1)
    scene.start(1, process="p-2")
    scene.start(process="p-2", all_open=True)
    assert scene.open() == ["span 1"]
    assert scene.spans.processes_in("s-1") == {"p-1"}


def test_a_trace_goes_on_while_one_of_its_processes_lives(scene: Scene) -> None:
    scene.start(1)
    scene.clock.advance(module.GONE_AFTER + 1)
    scene.start(2, process="p-2")
    assert scene.spans.goes_on(TRACE)
    assert scene.spans.stopped(TRACE) is None


def test_what_a_process_left_open_is_forgotten_in_the_end(scene: Scene) -> None:
    scene.start(1)
    scene.clock.advance(module.FORGOTTEN_AFTER + 1)
    assert scene.open() == []
    assert scene.spans.running() == []


def test_memory_is_bounded_and_the_trace_that_began_first_is_forgotten(scene: Scene) -> None:
    scene.start(1, trace=1)
    for trace in range(2, 2 + module.MAX_SPANS // 1000):
        scene.start(*range(1000), trace=trace)
    assert scene.open() == ["span 1"]
    scene.start(*range(1000), trace=10_000)
    assert scene.open() == []
    assert scene.telemetry.counts["queue.dropped open_spans"] == 1 + 1000


def test_what_a_process_does_not_tell_among_all_that_is_open_has_ended_though_it_never_comes(scene: Scene) -> None:
    scene.start(1, 2)
    scene.start(3, process="p-2")
    scene.start(2, 4, all_open=True)
    assert scene.open() == ["span 2", "span 3", "span 4"]
    scene.start(all_open=True)
    assert scene.open() == ["span 3"]
    scene.clock.advance(module.GONE_AFTER + 1)
    scene.start(process="p-2", all_open=True)
    assert scene.spans.take_died() == [], "who has nothing open does not die in the middle"


def test_spans_that_were_forgotten_for_room_can_be_told_as_ended(scene: Scene) -> None:
    scene.start(1)
    for trace in range(2, 3 + module.MAX_SPANS // 1000):
        scene.start(*range(1000), trace=trace, process="p-2")
    assert scene.open() == []
    scene.start(1)
    assert scene.open() == ["span 1"]
    scene.start(all_open=True)
    assert scene.open() == []
