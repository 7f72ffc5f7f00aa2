"""A real Prometheus with the shipped configuration and rules, sped up so that a test can wait for an alert."""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.scaled import scaled, scaled_rules, shorter

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "prometheus"
FACTOR = 20
"""An hour takes three minutes."""


class Prometheus:
    """The query API of a running Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ready(self) -> bool:
        return answers(f"{self._url}/-/ready")

    def alerts(self) -> list[dict[str, Any]]:
        """Alerts that are pending or firing."""
        return list(self._get("alerts")["alerts"])

    def exemplars(self, expression: str) -> list[dict[str, Any]]:
        """The exemplars of the series that `expression` selects, in the last hour."""
        now = time.time()
        asked = {"query": expression, "start": now - 3600, "end": now + 60}
        found = self._get("query_exemplars?" + urllib.parse.urlencode(asked))
        return [exemplar for series in found for exemplar in series["exemplars"]]

    def label_values(self, label: str, series: str) -> list[str]:
        """The values that `label` has in the series that the selector `series` matches."""
        return list(self._get(f"label/{label}/values?" + urllib.parse.urlencode({"match[]": series})))

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """The instant vector of `expression`, now or `at` a Unix time."""
        asked = {"query": expression, **({} if at is None else {"time": at})}
        return list(self._get("query?" + urllib.parse.urlencode(asked))["result"])

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}", timeout=60) as response:
            return json.load(response)["data"]


@contextmanager
def start(
    metrics_url: str | Sequence[str],
    directory: Path,
    *,
    factor: float = FACTOR,
    alertmanager: str | None = None,
    history: str = "",
    key: str | None = None,
) -> Iterator[Prometheus]:
    """Run Debian's prometheus in `directory` on the shipped files, scraping each `metrics_url`.

    The files are the shipped ones but for the targets, and all durations, which are divided by `factor`. Alerts go to
    the address of an `alertmanager`. `history` are samples from before its start, in OpenMetrics.
    `key` is a collector's.
    """
    executable = shutil.which("prometheus")
    if executable is None:
        raise FileNotFoundError("prometheus is not installed")
    targets = [urllib.parse.urlsplit(each) for each in ([metrics_url] if isinstance(metrics_url, str) else metrics_url)]
    configuration = scaled(yaml.safe_load((CONFIGURATION / "prometheus.yml").read_text()), factor)
    [job] = configuration["scrape_configs"]
    job["scrape_interval"] = job["scrape_timeout"] = shorter("15s", min(factor, 7.5))
    job["metrics_path"] = targets[0].path
    job["static_configs"] = [{"targets": [target.netloc for target in targets]}]
    if key is not None:
        job["authorization"] = {"credentials": key}
    told = [alertmanager] if alertmanager else []
    configuration["alerting"]["alertmanagers"] = [{"static_configs": [{"targets": told}]}]
    for name in configuration["rule_files"]:
        rules = scaled_rules(yaml.safe_load((CONFIGURATION / name).read_text()), factor)
        (directory / name).write_text(yaml.safe_dump(rules))
    (directory / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    if history:
        _write_history(directory, history)
    address = f"127.0.0.1:{free_port()}"
    arguments = [
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={address}",
        "--enable-feature=exemplar-storage",
    ]
    with running(executable, arguments, directory / "prometheus.log"):
        prometheus = Prometheus(f"http://{address}")
        eventually(prometheus.ready, within=30)
        yield prometheus


def _write_history(directory: Path, history: str) -> None:
    """Write samples into the storage, as if they had been scraped."""
    path = directory / "history.om"
    path.write_text(f"{history}# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(path), str(directory / "data")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


@contextmanager
def running(executable: str, arguments: Sequence[str], log: Path) -> Iterator[None]:
    """Run a server that writes to `log`, and end it with SIGTERM."""
    with log.open("wb") as output:
        process = subprocess.Popen([executable, *arguments], stdout=output, stderr=output)
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


def answers(url: str) -> bool:
    """Return whether a server is ready there."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False
