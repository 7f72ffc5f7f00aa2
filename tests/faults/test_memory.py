from pathlib import Path

import pytest

from tests.faults.memory import OVER, run
from tests.faults.shapes import SHAPES

LIMIT = 512
"""MiB."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_whatever_is_sent_and_asked_the_kernel_never_kills_it(tmp_path: Path) -> None:
    bounded, kills = run(tmp_path, LIMIT, SHAPES)
    assert kills == 0
    assert max(bounded.peaks.values()) <= OVER * LIMIT
