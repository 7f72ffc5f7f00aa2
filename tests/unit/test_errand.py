"""Pass the result or the error of an errand to the caller that waits, and log the error where none waits."""

from typing import NoReturn

import pytest
from agenteval_collector.runtime.errand import Errand
from agenteval_collector.runtime.errors import Unavailable


def failing(error: Exception) -> Errand[NoReturn]:
    def fail() -> NoReturn:
        raise error

    return Errand(fail)


def test_an_unexpected_failure_is_logged_and_raised_to_who_waits(caplog: pytest.LogCaptureFixture) -> None:
    errand = failing(ValueError("a defect"))
    errand.run()
    assert "a defect" in caplog.text
    with pytest.raises(ValueError, match="a defect"):
        errand.wait(0.0)


def test_a_refusal_is_left_to_who_waits(caplog: pytest.LogCaptureFixture) -> None:
    """They may try again twenty times a second."""
    errand = failing(Unavailable("the disk is full"))
    errand.run()
    assert not caplog.text
    with pytest.raises(Unavailable, match="the disk is full"):
        errand.wait(0.0)


def test_an_errand_that_was_waited_for_in_vain_never_runs() -> None:
    ran: list[int] = []
    errand = Errand(lambda: ran.append(1))
    with pytest.raises(Unavailable):
        errand.wait(0.0)
    errand.run()
    assert not ran
