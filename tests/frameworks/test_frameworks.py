"""The page of each framework, followed to the letter: its packages, its command, and what the collector then says.

Each runs in an environment of its own, which later runs use again, against a real collector and a model server of
ours.
"""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.collector_process import collector_process
from tests.support.eventually import eventually
from tests.support.examples import check_that_the_guard_stops, run_example
from tests.support.framework_pages import ROOT, FrameworkPage, framework_pages
from tests.support.model_server import ANSWERS, ModelServer

UV = shutil.which("uv", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))) or ""
PAGES = {page.name: page for page in framework_pages()}

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not UV, reason="uv is not installed: make test-frameworks installs it"),
]


def environment(page: FrameworkPage) -> Path:
    """Install what a page says into an environment of its own, or complete the one there is; return its programs."""
    folder = ROOT / ".venv-frameworks" / page.name
    commands: list[list[str | Path]] = [
        [UV, "venv", "--quiet", "--allow-existing", "--python", sys.executable, folder],
        [UV, "pip", "install", "--quiet", "--exact", "--python", folder, "--editable", ROOT, *page.requirements],
    ]
    for command in commands:
        subprocess.run(command, check=True, timeout=240)
    return folder / "bin"


def documents(web: str) -> dict[str, Any] | None:
    """Return the one session with its traces by their start; None until both are complete."""

    def get(path: str) -> Any:
        with urllib.request.urlopen(f"http://{web}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)

    sessions = get("sessions")["items"]
    if len(sessions) != 1:
        return None
    session = get(f"sessions/{sessions[0]['session_id']}")
    traces = [get(f"traces/{trace_id}") for trace_id in session["trace_ids"]]
    done = len(traces) == len(ANSWERS) and all(trace["complete"] for trace in traces)
    return {**session, "traces": traces} if done else None


def check_turn(trace: Mapping[str, Any], question: str, city: str) -> Mapping[str, Any]:
    """Check what every turn must show; return its tool call."""
    assert (trace["input"], trace["output"].strip()) == (question, ANSWERS[city])
    assert (trace["partial"], trace["model_calls"], len(trace["turns"])) == (False, 2, 1)
    assert {trace["seen"][sort] for sort in ("answers", "arguments", "results")} == {"all"}
    [call] = trace["tools_called"]
    assert (call["name"], call["arguments"]) == ("get_weather", {"city": city})
    return call


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_the_example_of_a_page_shows_what_the_index_promises(page: FrameworkPage, tmp_path: Path) -> None:
    with collector_process(tmp_path) as addresses, ModelServer() as model:
        variables = {
            **page.variables,
            "AGENTEVAL_ENDPOINT": f"http://{addresses['grpc']}",
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "ANTHROPIC_BASE_URL": model.url,
            **dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "none"),
        }
        ended = run_example(page.command, variables, environment(page))
        assert [line for line in ended.stdout.splitlines() if line in ANSWERS.values()] == [*ANSWERS.values()]
        session = eventually(lambda: documents(addresses["web"]), within=30)
    assert (session["session_id"], session["agent"]) == ("weather-1", "weather")
    sunny, failed = session["traces"]
    call = check_turn(sunny, "What is the weather in Paris?", "Paris")
    assert "sunny" in json.dumps(call["result"])
    assert (call["error"], sunny["findings"]) == (None, [])
    call = check_turn(failed, "And in Atlantis?", "Atlantis")
    assert call["error"]
    assert [(finding["kind"], finding["tool"]) for finding in failed["findings"]] == [("tool_failed", "get_weather")]


@pytest.mark.parametrize("name", ["langgraph", "openai_agents"])
def test_the_guard_stops_an_agent_of_a_framework(name: str) -> None:
    check_that_the_guard_stops(f"guard_{name}.py", environment(PAGES[name.replace("_", "-")]))
