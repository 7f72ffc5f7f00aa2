"""The examples of the guard, each as it stands, in a process of its own; no collector, and no way off the machine."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fake_collector import FakeCollector, attributes

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(name: str, endpoint: str) -> list[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "AGENTEVAL_", "OPENAI_"))}
    # A proxy that refuses: who tries to reach anything but this machine fails.
    refusing = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:1")
    ended = subprocess.run(
        [sys.executable, EXAMPLES / name],
        env={**clean, **refusing, "AGENTEVAL_ENDPOINT": endpoint},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "127.0.0.1:1" not in ended.stderr.replace(endpoint.removeprefix("http://"), "")
    return sorted(ended.stdout.splitlines())


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        pytest.param("guard_plain.py", None, id="plain"),
        pytest.param("guard_langgraph.py", "langgraph", id="langgraph"),
        pytest.param("guard_openai_agents.py", "agents", id="openai-agents"),
    ],
)
def test_looping_agent_is_stopped(name: str, needs: str | None) -> None:
    if needs is not None and importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed: make test-frameworks runs this")
    with FakeCollector() as collector:
        said = run_example(name, collector.endpoint)
        assert said == [
            "stopped: identical_call",
            "verdict: search was called 3 times in a row with the same arguments and the same result",
        ]
        tools = [attributes(span) for span in collector.spans() if span.name == "execute_tool search"]
    carrying = [index for index, tool in enumerate(tools) if "agenteval.findings" in tool]
    assert carrying == [2]
    assert len(tools) == 3
