"""The example of the guard without a framework, in a process of its own; no collector, and no way off the machine.

`make test-frameworks` runs those with a framework.
"""

from tests.support.examples import check_that_the_guard_stops


def test_looping_agent_is_stopped() -> None:
    check_that_the_guard_stops("guard_plain.py")
