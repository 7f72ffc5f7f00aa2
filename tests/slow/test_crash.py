from pathlib import Path

import pytest

from tests.support.crashing import check_after_kills


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_twenty_kills_every_acknowledged_span_is_in_its_trace_once(tmp_path: Path) -> None:
    assert check_after_kills(tmp_path, kills=20) > 400
