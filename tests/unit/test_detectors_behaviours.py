"""Scripted behaviours: what is told of which step, and of no other."""

import pytest

from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.running_trace import Detectors
from tests.support.behaviours import BEHAVIOURS, Behaviour, behaviours, told

LOOPING = [*behaviours(BEHAVIOURS / "looping.txt"), *behaviours(BEHAVIOURS / "agents_looping.txt")]
LEGITIMATE = [*behaviours(BEHAVIOURS / "legitimate.txt"), *behaviours(BEHAVIOURS / "agents_fine.txt")]


@pytest.mark.parametrize("behaviour", LOOPING + LEGITIMATE, ids=lambda behaviour: behaviour.title)
def test_a_loop_is_told_of_at_the_step_that_completes_it(behaviour: Behaviour) -> None:
    detectors = Detectors("s-1", "t-1", RuleBook())
    found = [told(detectors, moment) for moment in behaviour.moments]
    assert found == [moment.expected for moment in behaviour.moments]


def test_the_files_hold_what_their_names_say() -> None:
    assert all(any(moment.expected for moment in each.moments) for each in LOOPING)
    observed = [kind for each in LEGITIMATE for moment in each.moments for kind in moment.expected]
    assert all(kind.endswith("?") for kind in observed)
    assert len({each.title for each in LOOPING + LEGITIMATE}) == len(LOOPING + LEGITIMATE)
