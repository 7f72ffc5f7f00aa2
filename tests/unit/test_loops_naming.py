"""A loop that is found live has the session and agent that earlier spans name."""

from typing import Any

import pytest
from agenteval_collector.live.live_loops import LiveLoops
from agenteval_collector.model.logged_requests import Arrival, Origin
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.conventions.identity import BY_CONVENTION
from otel_agenteval.detectors.rules import RuleBook, Rules
from otel_agenteval.finding import Finding
from tests.support.clock import ManualClock
from tests.support.looping import found_live, tool_span
from tests.support.otlp import START, span, span_id, trace_id

FOREIGN = Origin(b"", "lib", None)
ELSEWHERE = Origin(Resource(dropped_attributes_count=1).SerializeToString(), "lib", None)
RUN = {"gen_ai__operation__name": "invoke_agent"}
ROOT, NODE, OTHER = 1, 20, 30
"""Numbers of spans that others stand below."""


def call(number: int, *, parent: int = ROOT, agent: str | None = None, result: str = "nothing found") -> Span:
    """The same call of the same tool as all the others."""
    item = tool_span(1, number, result=result)
    del item.attributes[[pair.key for pair in item.attributes].index("gen_ai.agent.name")]
    if agent is not None:
        item.attributes.add(key="gen_ai.agent.name").value.string_value = agent
    item.parent_span_id = span_id(parent)
    return item


def run(number: int, *, parent: int = 0, agent: str | None = None, **said: Any) -> Span:
    """A span around others, which ends after them; the run of an agent where it names one."""
    named: dict[str, Any] = {} if agent is None else {**RUN, "gen_ai__agent__name": agent}
    item = span(1, number, parent=parent, **named, **said)
    item.end_time_unix_nano = START + 10_000_000_000
    return item


def live(rules: RuleBook | None = None) -> LiveLoops:
    return LiveLoops(rules or RuleBook(), BY_CONVENTION, ManualClock())


def whose(found: list[Finding]) -> list[tuple[str, str | None]]:
    """Session and agent; the trace for a session that is not known."""
    return [(each.session_id, each.agent) for each in found]


def arrive(detectors: LiveLoops, *spans: Span, origin: Origin = FOREIGN) -> list[Finding]:
    """What is found as they arrive one by one."""
    return found_live(detectors, *([Arrival(item, origin)] for item in spans))


TRACE = trace_id(1).hex()
LOOP = [call(number) for number in (2, 3, 4)]


def test_a_loop_is_told_at_once_though_only_the_root_that_comes_last_tells_whose_it_is() -> None:
    detectors = live()
    found = arrive(detectors, *LOOP)
    named = arrive(detectors, run(ROOT, agent="planner", session__id="s-1"))
    assert (whose(found), named) == ([(TRACE, None)], [])


def test_what_spans_said_before_is_known_of_a_loop() -> None:
    detectors = live()
    arrive(detectors, run(ROOT, agent="planner", session__id="s-1"))
    assert whose(arrive(detectors, *LOOP)) == [("s-1", "planner")]


def test_steps_beside_an_unnamed_one_tell_its_agent() -> None:
    detectors = live()
    found = arrive(detectors, call(2, agent="planner", result="sunny"), *(call(number) for number in (3, 4, 5)))
    assert whose(found) == [(TRACE, "planner")]


@pytest.mark.parametrize(
    ("spans", "why"),
    [
        ([run(OTHER, parent=ROOT, agent="helper")], "beside the run of an agent, it may be that agent's"),
        ([call(8, parent=NODE, agent="a"), call(9, parent=OTHER, agent="b")], "it may be of either"),
        ([call(8, agent="a"), call(9, agent="b")], "beside steps of two"),
    ],
)
def test_a_step_whose_agent_cannot_be_told_is_left_to_the_complete_trace(spans: list[Span], why: str) -> None:
    detectors = live()
    arrive(detectors, *spans)
    assert arrive(detectors, *(call(number) for number in (12, 13, 14))) == [], why


def test_a_step_of_whoever_breaks_no_row_and_is_not_passed_over() -> None:
    """It may stand between two calls of an agent that is known by its name."""
    detectors = live()
    spans = [
        call(2, parent=NODE, agent="a"),
        call(3, parent=OTHER, agent="b"),
        call(4),
        call(5, parent=NODE, agent="a"),
    ]
    assert arrive(detectors, *spans, *(call(number, parent=NODE, agent="a") for number in (6, 7, 8))) == []


def test_the_runs_of_agents_elsewhere_leave_unnamed_steps_alone() -> None:
    detectors = live()
    arrive(detectors, run(NODE, parent=OTHER, agent="helper"))
    assert whose(arrive(detectors, *LOOP)) == [(TRACE, None)]


def test_where_agents_have_rules_of_their_own_an_unnamed_one_is_left_to_the_complete_trace() -> None:
    assert arrive(live(RuleBook(agents={"poller": Rules()})), *LOOP) == []


def test_steps_of_one_agent_by_two_exporters_are_left_to_the_complete_trace() -> None:
    detectors = live()
    arrive(detectors, call(2, agent="a"))
    assert arrive(detectors, call(9, agent="a", result="sunny"), origin=ELSEWHERE) == []
    assert arrive(detectors, *(call(number, agent="a") for number in (12, 13, 14))) == []


def test_agents_in_two_processes_disturb_each_other_as_little_as_spans_that_are_no_steps() -> None:
    detectors = live()
    arrive(detectors, call(2, agent="a"), call(3, agent="a"))
    arrive(detectors, call(1, parent=OTHER, agent="b"), run(OTHER, agent="b"), span(1, 50), origin=ELSEWHERE)
    assert whose(arrive(detectors, call(4, agent="a"))) == [(TRACE, "a")]


def test_once_a_step_came_late_the_trace_is_left_to_its_completion() -> None:
    detectors = live()
    arrive(detectors, call(2, agent="a"), call(4, agent="a"), call(3, agent="a", result="sunny"))
    assert arrive(detectors, *(call(number, agent="a") for number in (12, 13, 14))) == []
