"""A trace takes at most five requests to the judge, and no text that was said or done is in more than three of them.

Instructions, tools and findings are in each request, once.
"""

import asyncio
import json
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from agenteval_collector.judge.panel import JUDGED

from otel_agenteval.model import Tool, Trace
from tests.support.judge.filling import fill
from tests.support.judging import BACKGROUND, Script, model_call, panel, tool_call, trace, turn
from tests.support.recordings import name_of, recorded_traces, recordings

RECORDINGS = recordings("corpus", "recorded")
SAID = ("system_instructions", "input", "output", "reasoning", "plan", "error")
OF_TOOLS = ("name", "description", "parameters", "arguments", "result")
TEXTS = frozenset((*SAID, *OF_TOOLS))
"""Fields that hold what was recorded, and not numbers of ours."""


class Marks:
    """Another word for each text: equal ones for equal texts, none of which is a part of another."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def marked(self, value: Any, within: bool = False) -> Any:
        """`value` with a mark for each text; `within` a field that holds texts."""
        if is_dataclass(value) and not isinstance(value, type):
            changed = {
                field.name: self.marked(getattr(value, field.name), field.name in TEXTS) for field in fields(value)
            }
            return replace(value, **changed)
        if hasattr(value, "_fields"):  # A named tuple: ours, without any text that was recorded.
            return value
        if isinstance(value, tuple | list):
            return type(value)(self.marked(item, within) for item in value)
        if isinstance(value, dict):
            return {key: self.marked(item, within) for key, item in value.items()}
        if within and isinstance(value, str) and value.strip():
            return self.known.setdefault(value, f"mark-{len(self.known)}.")
        return value


def asked_about(subject: Trace) -> list[str]:
    """The data of each request about a trace, as text."""
    judges = panel(trace_tokens=100_000)
    names = ("extract", "execution", "completion", "plan", "tools")
    script = Script({name: lambda question: fill(question.schema, 0.5) for name in names})
    asyncio.run(judges.judge(subject, JUDGED, script))
    return [
        json.dumps({key: question.data[key] for key in question.data.keys() - BACKGROUND})
        for question, _ in script.asked
    ]


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_of_a_recorded_trace_no_text_is_in_more_than_three_of_five_requests(path: Any) -> None:
    for recorded in recorded_traces(path).values():
        marks = Marks()
        requests = asked_about(marks.marked(recorded))
        assert len(requests) <= 5
        copies = {text: sum(mark in request for request in requests) for text, mark in marks.known.items()}
        assert not [text for text, count in copies.items() if count > 3]


def test_of_a_trace_with_everything_in_it_each_text_is_copied_three_times_at_most() -> None:
    marks = Marks()
    subject = trace(
        turn(
            "the question",
            "the answer",
            model_calls=(model_call("the plan", 1), model_call("a reply", 3), model_call("the answer", 5)),
            plan=("the plan",),
            reasoning=("the reasoning",),
            tool_calls=(
                tool_call("first", 2, arguments={"q": "an argument"}, result={"rows": ["a result"]}),
                tool_call("second", 4, arguments="an argument in words", error="an error"),
            ),
        ),
        tools=(Tool(name="third", description="the description"),),
        system_instructions="the instructions",
    )
    requests = asked_about(marks.marked(subject))
    assert len(requests) == 5
    copies = Counter({text: sum(request.count(mark) for request in requests) for text, mark in marks.known.items()})
    assert copies == {
        "the question": 3,
        "the answer": 2,
        "the plan": 3,
        "a reply": 2,
        "the reasoning": 3,
        "first": 3,
        "an argument": 3,
        "a result": 3,
        "second": 3,
        "an argument in words": 3,
        "an error": 3,
        "third": 0,
        "the description": 0,
        "the instructions": 0,
    }
