"""Agents that do not name themselves, or no version: their names and versions."""

from dataclasses import replace

import pytest
from agenteval_collector.evaluation.agent_identities import MOST_FINGERPRINTS, MOST_TRACES, AgentIdentities
from agenteval_collector.model.assembled_trace import AssembledTrace, ClosedBy, Closing
from hypothesis import given
from hypothesis import strategies as st

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
    known = AgentIdentities()
    for name, service in siblings:
        known.named(run_of(name, service), closed(ClosedBy.ROOT))
    assert known.named(run_of(None), closed(by)).agent == agent


@pytest.mark.parametrize("by", [ClosedBy.ROOT, ClosedBy.MEMORY, ClosedBy.END])
def test_a_whole_run_that_names_no_agent_is_of_its_service(by: ClosedBy) -> None:
    known = AgentIdentities()
    known.named(run_of("guide"), closed(ClosedBy.ROOT))
    assert known.named(run_of(None), closed(by)).agents == ("shop",)


def test_what_is_no_turn_is_of_no_agent() -> None:
    trace = replace(run_of(None), turns=(), fingerprint="0" * 8)
    assert AgentIdentities().named(trace, closed(ClosedBy.ROOT)) == trace


def test_a_run_without_a_service_stays_without_an_agent() -> None:
    assert AgentIdentities().named(run_of(None, None), closed(ClosedBy.SILENCE)).agent is None


def made_of(fingerprint: str | None, version: str | None = None, agent: str = "guide", service: str = "shop") -> Trace:
    return replace(run_of(agent, service), fingerprint=fingerprint, service_version=version)


def version_of(known: AgentIdentities, trace: Trace) -> str | None:
    return known.named(trace, closed(ClosedBy.ROOT)).service_version


def test_a_version_that_nobody_says_is_the_fingerprint() -> None:
    known = AgentIdentities()
    assert version_of(known, made_of("1a2b3c4d")) == "prompt-1a2b3c4d"
    assert version_of(known, made_of("1a2b3c4d", version="7")) == "7"
    assert version_of(known, made_of(None)) is None


def test_instructions_that_differ_each_time_are_no_version() -> None:
    known = AgentIdentities()
    versions = [version_of(known, made_of(f"{number:08x}")) for number in range(3 * MOST_TRACES)]
    assert len(set(versions) - {None}) == MOST_FINGERPRINTS
    assert versions[MOST_FINGERPRINTS:] == [None] * (3 * MOST_TRACES - MOST_FINGERPRINTS)
    # Another agent, or one of the same name in another service, is not concerned.
    assert version_of(known, made_of("0" * 8, service="bank")) == "prompt-00000000"
    assert version_of(known, made_of("0" * 8, agent="clerk")) == "prompt-00000000"
    # Once they are the same again, they are a version.
    again = [version_of(known, made_of("f" * 8)) for _ in range(MOST_TRACES)]
    assert again[-1] == "prompt-ffffffff"


@given(st.lists(st.integers(0, 15), max_size=60).flatmap(lambda few: st.just(few * 10)))
def test_a_version_is_given_where_the_last_traces_are_of_few(numbers: list[int]) -> None:
    known = AgentIdentities()
    for place, number in enumerate(numbers):
        last = numbers[max(0, place + 1 - MOST_TRACES) : place + 1]
        expected = f"prompt-{number:08x}" if len(set(last)) <= MOST_FINGERPRINTS else None
        assert version_of(known, made_of(f"{number:08x}")) == expected
