"""Whose a live verdict is: said by spans that arrive before it, or after it."""

import pytest
from agenteval_collector.clock import ManualClock
from agenteval_collector.loops import LiveLoops
from agenteval_collector.pipeline import Arrival, FoundVerdict, Origin
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.conventions import BY_CONVENTION
from otel_agenteval.detectors import RuleBook, Rules
from tests.support.looping import tool_span
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


def run(number: int, *, parent: int = 0, agent: str | None = None, **said: object) -> Span:
    """A span around others, which ends after them; the run of an agent where it names one."""
    named = {} if agent is None else {**RUN, "gen_ai__agent__name": agent}
    item = span(1, number, parent=parent, **named, **said)
    item.end_time_unix_nano = START + 10_000_000_000
    return item


def live(rules: RuleBook | None = None) -> LiveLoops:
    return LiveLoops(rules or RuleBook(), BY_CONVENTION, ManualClock())


def whose(found: list[FoundVerdict]) -> list[tuple[str, str | None]]:
    """Session and agent; the trace for a session that is not known."""
    return [(each.verdict.session_id, each.agent) for each in found]


def arrive(detectors: LiveLoops, *spans: Span, origin: Origin = FOREIGN) -> list[FoundVerdict]:
    """What is found as they arrive one by one."""
    return [found for item in spans for found in detectors.observe([Arrival(item, origin)])]


TRACE = trace_id(1).hex()
LOOP = [call(number) for number in (2, 3, 4)]


def test_the_root_that_comes_last_tells_whose_the_loop_was() -> None:
    detectors = live()
    found = arrive(detectors, *LOOP)
    named = arrive(detectors, run(ROOT, agent="planner", session__id="s-1"))
    assert (whose(found), whose(named)) == ([(TRACE, None)], [("s-1", "planner")])
    assert [each.verdict.span_id for each in named] == [each.verdict.span_id for each in found]
    assert arrive(detectors, run(40, agent="another", session__id="s-2")) == []


def test_session_and_agent_may_come_one_after_the_other() -> None:
    detectors = live()
    arrive(detectors, *LOOP)
    later = [call(9, parent=OTHER, result="sunny")]
    later[0].attributes.add(key="session.id").value.string_value = "s-1"
    assert whose(arrive(detectors, *later)) == [("s-1", None)]
    assert whose(arrive(detectors, run(ROOT, agent="planner"))) == [("s-1", "planner")]


def test_spans_between_a_step_and_the_run_of_its_agent_name_nobody() -> None:
    detectors = live()
    arrive(detectors, *(call(number, parent=NODE) for number in (2, 3, 4)))
    assert arrive(detectors, run(NODE, parent=ROOT), run(OTHER, parent=ROOT)) == []
    assert whose(arrive(detectors, run(ROOT, agent="planner"))) == [(TRACE, "planner")]


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
