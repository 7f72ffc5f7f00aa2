"""What the detectors make of what real agents did: they tell of few, and of nobody who does not loop."""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from benchmarks.workload import taubench
from benchmarks.workload.steps import steps
from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import Step, steps_of
from otel_agenteval.model import Trace
from tests.support.recordings import name_of, recorded_traces, recordings

SHARED = Path(os.environ.get("AGENTEVAL_SHARED") or Path(__file__).parents[3] / "shared")
CONVERSATIONS = SHARED / "taubench" / "gpt-4o-airline-tasks-00-24.json"
RECORDINGS = recordings("corpus", "recorded")
# Its framework asks the model three times for an answer, and gets the same error.
RETRIED = "openinference-crewai--llmerror.otlp.pb"
# An agent gives the same answer to every question, and what its model was asked stands in events.
UNASKED = ("otel-openai-v2-events--loop.otlp.pb", "strands--loop.otlp.pb")


def kinds(observed: Iterable[Step]) -> list[str]:
    detectors = Detectors("s-1", "t-1", RuleBook())
    return [loop.kind for step in observed for loop in detectors.observe(step)]


def traces(path: Path) -> list[Trace]:
    return sorted(recorded_traces(path).values(), key=lambda trace: trace.started_at)


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_one_recorded_trace_holds_a_loop(path: Path) -> None:
    found = [kind for trace in traces(path) for kind in kinds(steps_of(trace))]
    assert found == (["error_storm"] if path.name == RETRIED else [])


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_the_same_answer_to_other_questions_is_no_loop_where_the_questions_are_recorded(path: Path) -> None:
    found = kinds(step for trace in traces(path) for step in steps_of(trace))
    unasked = ["repeated_output"] if path.name in UNASKED else []
    assert found == (["error_storm"] if path.name == RETRIED else unasked)


def test_the_loops_in_100_recorded_conversations() -> None:
    if not CONVERSATIONS.exists():
        pytest.skip(f"the recorded conversations are not here: {CONVERSATIONS}")
    found = {
        (conversation.session_id, turn): Counter(kinds(of_turn))
        for conversation in taubench.read(CONVERSATIONS)
        for turn, of_turn in enumerate(steps(conversation))
    }
    # Every one was read: a booking is tried over and over with an amount that the tool has refused.
    assert {turn: counted for turn, counted in found.items() if counted} == {
        ("tau-8-1", 5): {"error_storm": 1},
        ("tau-9-2", 7): {"error_storm": 1},
    }
