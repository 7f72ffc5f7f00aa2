"""Running the examples, each as it stands, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.fake_collector import FakeCollector, attributes

EXAMPLES = Path(__file__).parents[2] / "examples"
_FOREIGN = ("OTEL_", "AGENTEVAL_", "OPENAI_", "ANTHROPIC_")
# A proxy that refuses: who tries to reach anything but this machine fails.
_PROXY = "http://127.0.0.1:1"
_REFUSING = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _PROXY),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
}


def run_example(
    command: Sequence[str], variables: Mapping[str, str], programs: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command from the repository's root, with these variables and the programs of an environment; fails the test
    where it fails, or tries to leave the machine by HTTP."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    ended = subprocess.run(
        command,
        env={**clean, **_REFUSING, **variables, "PATH": path},
        cwd=EXAMPLES.parent,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended


def check_that_the_guard_stops(name: str, programs: Path = Path(sys.executable).parent) -> None:
    """Run an example of the guard, and check what it says and sends."""
    command = [str(programs / "python"), str(EXAMPLES / name)]
    with FakeCollector() as collector:
        ended = run_example(command, {"AGENTEVAL_ENDPOINT": collector.endpoint}, programs)
        assert sorted(ended.stdout.splitlines()) == [
            "stopped: identical_call",
            "verdict: search was called at least 3 times in a row with the same arguments and the same result",
        ]
        tools = [attributes(span) for span in collector.spans() if span.name == "execute_tool search"]
    carrying = [index for index, tool in enumerate(tools) if "agenteval.findings" in tool]
    assert carrying == [2]
    assert len(tools) == 3
