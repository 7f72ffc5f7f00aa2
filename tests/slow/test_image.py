"""The Dockerfile's settings and health check with the real collector. There is no container engine in these tests."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCKER = Path(__file__).parents[2] / "deploy" / "docker"
SCRIPT = Path(sys.executable).parent / "agenteval"

pytestmark = pytest.mark.slow


def image_environment(data_dir: Path, **environ: str) -> dict[str, str]:
    """Return the environment that the image sets, with free ports and `data_dir` in place of its own."""
    found = re.findall(r"(AGENTEVAL_\w+)=(\S+)(?: \\)?$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    image = {name: re.sub(r":43\d\d$", ":0", value) for name, value in found if not value.startswith("true")}
    assert "AGENTEVAL_SERVER__WEB_ADDRESS" in image
    return {"PATH": os.environ["PATH"], **image, "AGENTEVAL_DATA_DIR": str(data_dir), **environ}


def is_healthy(web_address: str) -> subprocess.CompletedProcess[str]:
    """Run the image's health check against the collector at `web_address`."""
    return subprocess.run(
        [sys.executable, DOCKER / "healthcheck.py"],
        env={"AGENTEVAL_SERVER__WEB_ADDRESS": web_address},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_the_collector_of_the_image_is_healthy_while_it_runs(tmp_path: Path) -> None:
    environ = image_environment(tmp_path, AGENTEVAL_SERVER__INSECURE="true")
    with subprocess.Popen([SCRIPT, "collector"], env=environ, stdout=subprocess.PIPE, text=True) as collector:
        assert collector.stdout is not None
        addresses = json.loads(collector.stdout.readline())
        try:
            done = is_healthy(addresses["web"])
            assert (done.returncode, done.stderr) == (0, "")
        finally:
            collector.terminate()
        assert collector.wait(20) == 0
    done = is_healthy(addresses["web"])
    assert (done.returncode, "refused" in done.stderr) == (1, True)


def test_the_image_says_what_it_needs_to_listen_beyond_its_container(tmp_path: Path) -> None:
    done = subprocess.run(
        [SCRIPT, "collector"],
        env=image_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "server.insecure" in done.stderr
    assert "server.keys" in done.stderr
