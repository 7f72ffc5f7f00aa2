"""Every question to the judge says the same about the agent."""

import asyncio
import json
from typing import Any

import pytest
from agenteval_collector.config.judge import RubricConfig
from agenteval_collector.judge.panel import JUDGED
from agenteval_collector.judge.prompt.background import background
from agenteval_collector.judge.prompt.encoding import encode, tokens
from agenteval_collector.model.judge_jobs import GOAL_SUCCESS
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.model import CertainFact, Tool, Trace
from tests.support.judge.filling import fill
from tests.support.judging import Script, panel, tool_call, trace, turn, unredacted

FAILED = CertainFact(kind="tool_failed", reason="search failed: timeout", turn=1, span_id="0" * 16)
KNOWN = trace(
    turn("Find a flight", "Where to?"),
    turn("To Oslo", "Found one", tool_calls=(tool_call("search", error="timeout"),), plan=("First I search",)),
    tools=(Tool(name="search", description="Finds flights."), Tool(name="book")),
    system_instructions="You book flights.",
    agents=("planner", "searcher"),
    observations=(FAILED,),
)
QUESTIONS = ("extract", "completion", "plan", "execution", "tools", GOAL_SUCCESS, "polite")


@pytest.fixture(scope="module")
def asked() -> dict[str, Any]:
    """The data of each question about `KNOWN`, by name."""
    thresholds = dict.fromkeys((*JUDGED, GOAL_SUCCESS, "polite"), 0.5)
    script = Script(dict.fromkeys(QUESTIONS, lambda question: fill(question.schema, 0.5)))
    rubrics = (RubricConfig(name="polite", question="Was it polite?"),)
    judge = panel(thresholds=thresholds, rubrics=rubrics, trace_tokens=8_000)
    asyncio.run(judge.judge(KNOWN, thresholds, script))
    return {question.name: question.data for question, _ in script.asked}


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_says_what_is_known_of_the_agent(name: str, asked: dict[str, Any]) -> None:
    data = asked[name]
    assert data["instructions"] == "You book flights."
    assert data["agents"] == ["planner", "searcher"]
    assert data["observations"] == [{"kind": "tool_failed", "turn": 2, "text": "search failed: timeout"}]
    assert [tool["name"] for tool in data["available_tools"]] == ["search", "book"]


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_question_repeats_the_instructions(name: str, asked: dict[str, Any]) -> None:
    assert json.dumps(asked[name]).count("You book flights.") == 1


def test_nothing_is_said_of_what_was_not_recorded() -> None:
    assert background(trace(turn()), 2_000, unredacted) == {}


def test_the_background_is_redacted() -> None:
    shown = json.dumps(background(KNOWN, 2_000, lambda value: None if value is None else "[X]"))
    assert not any(word in shown for word in ("book flights", "Finds flights", "timeout", "planner"))


texts = st.builds(
    lambda piece, times: piece * times, st.sampled_from(("word ", "<", "日本", "7,")), st.integers(1, 900)
)
known = st.builds(
    lambda said, tools, found: trace(
        turn(),
        system_instructions=said,
        tools=tuple(Tool(name=f"t{index}", description=text) for index, text in enumerate(tools)),
        observations=tuple(CertainFact(kind="tool_failed", reason=text) for text in found),
    ),
    texts,
    st.lists(texts, max_size=40),
    st.lists(texts, max_size=40),
)


@given(known, st.integers(500, 4_000))
def test_the_background_keeps_to_its_budget(subject: Trace, budget: int) -> None:
    # A little more is allowed for the names of the parts.
    assert tokens(encode(background(subject, budget, unredacted))) <= budget + 40
