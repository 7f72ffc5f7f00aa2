"""The collector's name at a backend."""

import uuid
from pathlib import Path

from agenteval_collector.app.stages import instance_id


def test_a_collector_has_one_id_for_each_folder_also_after_a_restart(tmp_path: Path) -> None:
    first = instance_id(tmp_path / "a")
    assert instance_id(tmp_path / "a") == first
    assert instance_id(tmp_path / "b" / ".." / "a") == first
    assert instance_id(tmp_path / "b") != first
    assert uuid.UUID(first).version == 5
