import os
from pathlib import Path

import pytest

from tests.faults.history import run

FAULTS = int(os.environ.get("FAULTS", "40"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_through_random_faults_nothing_acknowledged_is_lost_or_double(tmp_path: Path) -> None:
    history = run(tmp_path, faults=FAULTS, seed=1)
    assert history.is_right, history
    assert history.acknowledged >= 10 * FAULTS
