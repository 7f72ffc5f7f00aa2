"""Runs whose root never came have the agent of their siblings."""

from dataclasses import replace

import pytest
from agenteval_collector.evaluation.unfinished import SiblingAgents
from agenteval_collector.model.assembled_trace import AssembledTrace, ClosedBy, Closing

from otel_agenteval.model import Trace, Turn
from tests.support.looping import tool_span
from tests.support.scoring import assembled

TURN = Turn(span_id="a" * 16, input=None, output=None, started_at=1, ended_at=2)


def run_of(agent: str | None, service: str | None = "shop") -> Trace:
    return Trace(trace_id="1" * 32, service=service, agents=(agent,) if agent else (), turns=(TURN,))


def closed(by: ClosedBy) -> AssembledTrace:
    return replace(assembled(tool_span(1, 2)), closing=Closing(by=by, reason="nothing more came", partial=True))


@pytest.mark.parametrize("by", [ClosedBy.SILENCE, ClosedBy.MAX_AGE])
@pytest.mark.parametrize(
    ("siblings", "agent"),
    [
        pytest.param([("guide", "shop"), ("guide", "shop")], "guide", id="the agent of all traces before it"),
        pytest.param([("guide", "shop"), ("clerk", "shop")], "shop", id="its service, where these are of two agents"),
        pytest.param([("guide", "bank")], "shop", id="its service, where no trace of it came before"),
        pytest.param([("clerk", "shop"), *[("guide", "shop")] * 8], "guide", id="the agent of the last traces"),
    ],
)
def test_a_run_without_a_root_is_of_the_agent_of_its_service(
    siblings: list[tuple[str, str]], agent: str, by: ClosedBy
) -> None:
    known = SiblingAgents()
    for name, service in siblings:
        known.named(run_of(name, service), closed(ClosedBy.ROOT))
    assert known.named(run_of(None), closed(by)).agent == agent


@pytest.mark.parametrize("by", [ClosedBy.ROOT, ClosedBy.MEMORY, ClosedBy.END])
def test_a_run_that_is_not_known_to_be_unfinished_stays_without_an_agent(by: ClosedBy) -> None:
    known = SiblingAgents()
    known.named(run_of("guide"), closed(ClosedBy.ROOT))
    assert known.named(run_of(None), closed(by)).agent is None


def test_a_run_without_a_service_stays_without_an_agent() -> None:
    assert SiblingAgents().named(run_of(None, None), closed(ClosedBy.SILENCE)).agent is None
