"""What holds for all tests: how inputs are drawn, and that the process ends."""

import faulthandler
import os
import sys

import pytest
from hypothesis import HealthCheck, settings

# On machines that others use as well, how long it takes to draw an input says nothing.
settings.register_profile(
    "thorough",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # In continuous integration the same inputs every time: a change fails for what it changed. Elsewhere new ones.
    derandomize="CI" in os.environ,
)
# Fewer inputs for `make check`: it is run often, each time with new ones.
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=20)
settings.load_profile("thorough")

_ENDS_WITHIN = 60.0
"""Seconds from the last test to the end of the process, with what the SDKs still send at exit."""


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Where a thread keeps the process from ending, show where it stands and end with an error."""
    faulthandler.dump_traceback_later(_ENDS_WITHIN, exit=True, file=sys.__stderr__ or sys.stderr)
