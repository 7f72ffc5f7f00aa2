"""What the tests of faults share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.disk import Disk, disk_in


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk to break; skips where none can be made."""
    with disk_in(tmp_path) as made:
        if made is None:
            pytest.skip("no file system can be mounted through a loop device here")
        yield made
