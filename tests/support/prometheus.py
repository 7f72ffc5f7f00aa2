"""A real Prometheus with the shipped configuration, sped up so that a test can wait for an alert."""

import json
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.eventually import eventually

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "prometheus"
_INTERVAL = "500ms"


class Prometheus:
    """The query API of a running Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5) as response:
                return bool(response.status == 200)
        except urllib.error.URLError:
            return False

    def alerts(self) -> list[dict[str, Any]]:
        """Alerts that are pending or firing."""
        return list(self._get("alerts")["alerts"])

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The instant vector of `expression`."""
        return list(self._get("query?" + urllib.parse.urlencode({"query": expression}))["result"])

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}", timeout=5) as response:
            return json.load(response)["data"]


@contextmanager
def start(metrics_url: str, directory: Path) -> Iterator[Prometheus]:
    """Run Debian's prometheus in `directory` on the shipped files, scraping `metrics_url`.

    The rules are the shipped ones in everything but `for` and the intervals.
    """
    executable = shutil.which("prometheus")
    if executable is None:
        raise FileNotFoundError("prometheus is not installed")
    target = urllib.parse.urlsplit(metrics_url)
    configuration = yaml.safe_load((CONFIGURATION / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": _INTERVAL, "evaluation_interval": _INTERVAL}
    [job] = configuration["scrape_configs"]
    job["scrape_timeout"] = _INTERVAL
    job["metrics_path"] = target.path
    job["static_configs"] = [{"targets": [target.netloc]}]
    for name in configuration["rule_files"]:
        (directory / name).write_text(yaml.safe_dump(hurried(yaml.safe_load((CONFIGURATION / name).read_text()))))
    (directory / "prometheus.yml").write_text(yaml.safe_dump(configuration))

    address = f"127.0.0.1:{_free_port()}"
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                executable,
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            prometheus = Prometheus(f"http://{address}")
            eventually(prometheus.ready, within=30)
            yield prometheus
        finally:
            process.terminate()
            process.wait(20)


def hurried(rules: dict[str, Any]) -> dict[str, Any]:
    """The same rules, whose alerts wait a second."""
    return {
        **rules,
        "groups": [
            {**group, "rules": [{**rule, "for": "1s"} if "alert" in rule else rule for rule in group["rules"]]}
            for group in rules["groups"]
        ],
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
