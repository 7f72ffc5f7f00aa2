"""Circles of agents are found in the spans of three families of instrumentations, in the agent and in the collector."""

from collections.abc import Callable, Sequence

import pytest

from otel_agenteval.finding import Finding
from tests.support.wire import DIALECTS, Act, GenAI, OpenInference, Stage

Runs = Sequence[tuple[str, Sequence[Act]]]


def _asked(worker: str) -> Runs:
    return [
        ("lead", [("hands over", worker, f"The {worker} goes on with part {len(worker)} of the plan.")]),
        (worker, [("calls", f"run_{worker}", {}, f"{worker} is done"), ("hands over", "lead")]),
    ]


def rounds(times: int, make: Callable[[int], Runs]) -> Runs:
    return [run for number in range(times) for run in make(number)]


POLITELY = ("One moment, please.", "Let me see who can help.", "Just a second.", "I will pass you on.")
PASSED_ON = rounds(4, lambda _: [("triage", [("hands over", "billing")]), ("billing", [("hands over", "triage")])])
RING = rounds(
    4,
    lambda _: [
        ("sales", [("hands over", "support")]),
        ("support", [("hands over", "billing")]),
        ("billing", [("hands over", "sales")]),
    ],
)
CIRCLES: dict[str, Runs] = {
    "two agents hand over to each other": PASSED_ON,
    "three agents in a ring": RING,
    "two agents in polite words": rounds(
        4,
        lambda n: [
            ("triage", [("hands over", "billing", POLITELY[n])]),
            ("billing", [("hands over", "triage", f"{POLITELY[n]} Thank you.")]),
        ],
    ),
    "each time the same look-up fails": rounds(
        4,
        lambda _: [
            ("triage", [("hands over", "billing")]),
            ("billing", [("calls", "get_invoice", {"id": 7}, {"error": "no such invoice"}), ("hands over", "triage")]),
        ],
    ),
    "each waits for the other": rounds(
        4,
        lambda _: [
            ("planner", [("says", "The writer should begin with the text.")]),
            ("writer", [("says", "I am waiting for the plan of the planner.")]),
        ],
    ),
}
FINE: dict[str, Runs] = {
    "a question comes back once": [*PASSED_ON[:4], ("triage", [("says", "Your invoice is paid.")])],
    "a draft gets better": rounds(
        5,
        lambda n: [
            ("writer", [("says", f"Draft {n}: " + " ".join(f"word{n}{i}" for i in range(40)))]),
            ("critic", [("says", f"Point {n}: the paragraph on word{n}7 lacks a source, and word{n}9 is unclear.")]),
        ],
    ),
    "each run looks up another invoice": rounds(
        5,
        lambda n: [
            ("triage", [("hands over", "billing", f"Next is invoice {n}.")]),
            ("billing", [("calls", "get_invoice", {"id": n}, {"total": 10 * n}), ("hands over", "triage")]),
        ],
    ),
    "workers are asked one after the other": [
        run for worker in ("reader", "coder", "tester", "writer") for run in _asked(worker)
    ],
}


def circles(found: Sequence[Finding]) -> list[Finding]:
    return [each for each in found if each.kind == "cycle" and "agents" in each.metadata]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("title", CIRCLES)
def test_a_circle_of_agents_alarms_wherever_it_is_looked_for(title: str, dialect: GenAI | OpenInference) -> None:
    stage = Stage(dialect)
    stage.play(CIRCLES[title])
    for found in (stage.told_in_the_agent(), stage.told_when_complete()):
        assert any(each.is_alarm for each in circles(found))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("title", ["two agents hand over to each other", "three agents in a ring"])
def test_a_circle_of_hand_overs_is_found_without_content(title: str, dialect: GenAI | OpenInference) -> None:
    stage = Stage(dialect, content=False)
    stage.play(CIRCLES[title])
    for found in (stage.told_in_the_agent(), stage.told_when_complete()):
        assert circles(found)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("title", FINE)
def test_agents_that_get_on_by_taking_turns_are_no_circle(title: str, dialect: GenAI | OpenInference) -> None:
    stage = Stage(dialect)
    stage.play(FINE[title])
    assert circles([*stage.told_in_the_agent(), *stage.told_when_complete()]) == []
