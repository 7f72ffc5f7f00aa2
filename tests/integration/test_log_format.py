"""The log of a collector as a program reads it."""

import json
from pathlib import Path

from tests.support.collector_process import collector_process


def test_every_line_of_a_collector_is_json_of_the_level_or_above(tmp_path: Path) -> None:
    with collector_process(tmp_path, {"AGENTEVAL_SERVER__LOG_FORMAT": "json"}):
        pass
    lines = [json.loads(line) for line in (tmp_path / "collector.log").read_text().splitlines()]
    assert {"listening", "stopped"} <= {line["message"].partition(":")[0] for line in lines}
    (tmp_path / "collector.log").unlink()
    with collector_process(tmp_path, {"AGENTEVAL_SERVER__LOG_LEVEL": "error"}):
        pass
    assert not (tmp_path / "collector.log").read_text()
