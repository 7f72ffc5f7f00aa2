from pathlib import Path

import pytest

from tests.faults.memory import OVER, run
from tests.faults.shapes import small_attributes

LIMIT = 512
"""MiB."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_whatever_is_sent_and_asked_the_kernel_never_kills_it(tmp_path: Path) -> None:
    # The one on which the kernel killed it; `python -m tests.faults.memory` sends all, which takes half an hour.
    bounded, kills = run(tmp_path, LIMIT, [small_attributes])
    assert kills == 0
    assert max(bounded.peaks.values()) <= OVER * LIMIT
