"""CrewAI: a crew at work is one turn."""

import json
from typing import Any

import pytest

from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace

TASKS = [{"description": "Find a flight."}, {"description": "Book it."}]


def crew(tasks: Any = TASKS, **attributes: Any) -> Trace:
    given = {key.replace("__", "."): value for key, value in attributes.items()}
    return read_trace("t", [SpanRecord(span_id="c", attributes={"crew_tasks": json.dumps(tasks), **given})])


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        pytest.param(TASKS, "Find a flight.", id="the first of several tasks"),
        pytest.param([{"description": "Write of {topic}."}], None, id="inputs were still to be filled in"),
        pytest.param([{"agent": "bot"}], None, id="no description"),
        pytest.param([], None, id="no task"),
        pytest.param("none", None, id="no list"),
    ],
)
def test_a_crew_was_asked_what_its_first_task_describes(tasks: Any, expected: str | None) -> None:
    assert [turn.input for turn in crew(tasks).turns] == [expected]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(
            {"raw": "Sunny.", "tasks_output": [{"description": "Find a train."}]}, "Find a train.", id="ended"
        ),
        pytest.param(None, None, id="without a result"),
    ],
)
def test_a_crew_that_works_again_was_not_asked_what_its_last_run_was(output: Any, expected: str | None) -> None:
    again = crew(crew_inputs='{"thing": "train"}', output__value=json.dumps(output))
    assert again.input == expected


def test_a_crew_answers_with_its_raw_result_in_either_vocabulary() -> None:
    recorded = {"openinference__span__kind": "CHAIN", "output__value": json.dumps({"raw": "Done.", "tasks_output": []})}
    assert crew(**recorded).output == "Done."
    assert crew(crewai__crew__result="Done.").output == "Done."
    assert crew().output is None


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        pytest.param(
            "\nCurrent Task: Find it.\n\nThis is the expected criteria for your final answer: All.\nyou MUST",
            "Find it.",
            id="of today",
        ),
        pytest.param(
            "\nCurrent Task: Find it.\nNow!\n\nThis is the expect criteria for your final answer: All.\n\nBegin!",
            "Find it.\nNow!",
            id="of 2024",
        ),
        pytest.param(
            "Current Task: Find it.\n\nBegin! This is VERY important to you", "Find it.", id="without criteria"
        ),
        pytest.param("Current Task: Find it.", "Current Task: Find it.", id="somebody's own words"),
        pytest.param("New task:\nFind it.", "Find it.", id="of smolagents"),
    ],
)
def test_the_framework_s_words_around_the_user_s_are_taken_off(prompt: str, expected: str) -> None:
    messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": prompt}]}])
    span = SpanRecord(span_id="m", attributes={"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages})
    assert read_trace("t", [span]).input == expected
