"""Effort beyond an agent's own usual."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pytest
from agenteval_collector.evaluation.findings.effort import (
    KEPT_SESSIONS,
    MIN_SESSIONS,
    UNUSUAL_SHARE,
    AgentEfforts,
    Unusual,
    effort_of,
    unusual_effort,
)
from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.effort import Effort
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.model import ModelCall, Trace, Turn, Usage
from tests.support.evaluating import call, trace

MEASURES = ("steps", "tokens", "seconds", "usd")


def no_price(_: Sequence[ModelCall]) -> None:
    """Price nothing."""


def unusual_slowly(finished: Sequence[Effort], present: Effort) -> dict[str, float]:
    """Percentile by measure, by counting one by one."""
    found = {}
    for measure in MEASURES:
        now = getattr(present, measure)
        before = [getattr(each, measure) for each in finished[-KEPT_SESSIONS:] if getattr(each, measure) is not None]
        if now is None or len(before) < MIN_SESSIONS:
            continue
        as_much = [value for value in before if value >= now]
        if len(as_much) / len(before) <= UNUSUAL_SHARE:
            found[measure] = 100 - 100 * len(as_much) / len(before)
    return found


A = AgentKey("a", "shop")
AGENTS = [A, AgentKey("a", "bank"), AgentKey("b", "shop"), AgentKey("c", "shop")]
"""Two services have an agent of the same name; the last one is not known."""
AMOUNTS = st.none() | st.integers(0, 20)
EFFORTS = st.builds(Effort, steps=AMOUNTS, tokens=AMOUNTS, seconds=AMOUNTS, usd=AMOUNTS)


@given(st.lists(st.tuples(st.sampled_from(AGENTS[:3]), EFFORTS), max_size=300), EFFORTS)
def test_the_top_share_of_the_last_sessions_of_an_agent_is_unusual(
    finished: list[tuple[AgentKey, Effort]], present: Effort
) -> None:
    history, by_agent = AgentEfforts(), defaultdict(list)
    for agent, effort in finished:
        history.remember_efforts([(agent, effort)])
        by_agent[agent].append(effort)
    for agent in AGENTS:
        found = {each.measure: each.percentile for each in history.compare(agent, present)}
        assert found == pytest.approx(unusual_slowly(by_agent[agent], present))


def test_nothing_is_unusual_before_enough_sessions_are_known() -> None:
    history = AgentEfforts()
    for _ in range(MIN_SESSIONS - 1):
        history.remember_efforts([(A, Effort(steps=3))])
    assert history.compare(A, Effort(steps=50)) == []
    history.remember_efforts([(A, Effort(steps=3))])
    assert history.compare(A, Effort(steps=50)) == [Unusual("steps", 50, 100.0, MIN_SESSIONS)]


def test_what_every_session_takes_is_usual() -> None:
    history = AgentEfforts()
    for _ in range(MIN_SESSIONS):
        history.remember_efforts([(A, Effort(steps=3))])
    assert history.compare(A, Effort(steps=3)) == []


def test_only_the_last_sessions_count() -> None:
    history = AgentEfforts()
    for steps in [100] * KEPT_SESSIONS + [1] * KEPT_SESSIONS:
        history.remember_efforts([(A, Effort(steps=steps))])
    assert [each.measure for each in history.compare(A, Effort(steps=2))] == ["steps"]


def model_call(usage: Usage | None) -> ModelCall:
    return ModelCall(span_id="c", usage=usage, started_at=0, ended_at=1)


def worked(*models: ModelCall) -> Trace:
    return trace(
        Turn(
            span_id="t",
            input="q",
            output="a",
            tool_calls=(call(),),
            model_calls=models,
            started_at=0,
            ended_at=2 * 10**9,
        )
    )


def test_the_effort_of_a_trace_is_what_was_recorded_of_it() -> None:
    used = model_call(Usage(input_tokens=10, output_tokens=5))
    said = Effort(asked=1, answered=1)
    assert effort_of(worked(used, used), usd=0.5) == replace(said, steps=3, tokens=30, seconds=2.0, usd=0.5)
    bare = effort_of(worked(model_call(None)))
    assert bare == replace(said, steps=2, tokens=None, seconds=2.0, usd=None)
    assert effort_of(worked()).tokens == 0


def test_what_was_said_is_counted_in_characters_and_unknown_where_it_was_not_recorded() -> None:
    first = Turn(span_id="t", input="how many?", output="two", started_at=0, ended_at=1)
    second = replace(first, input=None, output="certainly")
    assert (effort_of(trace(first)).asked, effort_of(trace(first)).answered) == (9, 3)
    assert (effort_of(trace(first, second)).asked, effort_of(trace(first, second)).answered) == (None, 9)
    assert effort_of(trace(replace(first, output=None))).answered is None


def test_what_one_trace_does_not_tell_is_not_known_of_the_session() -> None:
    assert Effort(steps=1, tokens=5) + Effort(steps=2, tokens=None) == Effort(steps=3, tokens=None)


def test_the_finding_names_each_measure_with_its_percentile() -> None:
    subject = worked()
    finding = unusual_effort(
        subject, [Unusual("steps", 40, 96.7, 60), Unusual("usd", 1.25, 90.0, 60)], session_id="s", found_at=5
    )
    assert (finding.kind, finding.severity, finding.span_id) == ("unusual_effort", "info", "t")
    assert finding.reason == (
        "the session took more than this agent's last 60 sessions usually did: 40 steps (more than 97 %), "
        "1.25 USD (more than 90 %)"
    )
    assert finding.metadata["steps"] == {"value": 40, "percentile": 96.7, "sessions": 60}
