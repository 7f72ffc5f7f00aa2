import os
from pathlib import Path

import pytest

from tests.faults.damage import run

FLIPS = int(os.environ.get("FAULTS", "40")) // 4
"""Each takes as long as four other faults: a collector starts twice, and its data is checked."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_of_flipped_bytes_the_rest_is_saved_and_what_is_lost_is_said(tmp_path: Path) -> None:
    damage = run(tmp_path, FLIPS, seed=1)
    assert damage.is_right, damage
