"""A real Alertmanager with the shipped configuration, and a webhook that remembers what it was told."""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.prometheus import CONFIGURATION, FACTOR, answers, running
from tests.support.scaled import scaled

NAMES = ("prometheus-alertmanager", "alertmanager")
"""Debian's name, and that of others."""


def executable() -> str | None:
    """Return the path of Alertmanager, None where it is not installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass(frozen=True, slots=True)
class Told:
    """One alert in one message; `at` is when the message came (monotonic seconds)."""

    at: float
    alert: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.alert["labels"]["alertname"])

    @property
    def agent(self) -> str:
        return str(self.alert["labels"].get("gen_ai_agent_name", ""))

    @property
    def firing(self) -> bool:
        return bool(self.alert["status"] == "firing")


class Webhook:
    """The receiver of Alertmanager's messages."""

    def __init__(self) -> None:
        self._told: list[Told] = []
        self._lock = threading.Lock()

    def take(self, message: dict[str, Any]) -> None:
        with self._lock:
            # Prometheus has no targets for its first five seconds, however short the rules wait: that is no alert here.
            known = [alert for alert in message["alerts"] if "instance" in alert["labels"]]
            self._told.extend(Told(time.monotonic(), alert) for alert in known)

    def told(self, name: str | None = None, agent: str | None = None, *, firing: bool | None = None) -> list[Told]:
        """Return what it was told so far; None: any."""
        with self._lock:
            told = list(self._told)
        return [
            each
            for each in told
            if name in (None, each.name) and agent in (None, each.agent) and firing in (None, each.firing)
        ]


@contextmanager
def start(directory: Path, *, factor: float = FACTOR) -> Iterator[tuple[str, Webhook]]:
    """Run Alertmanager on the shipped file but for the webhook's address, and all durations, which are divided by
    `factor`; yield its address and the webhook."""
    program = executable()
    if program is None:
        raise FileNotFoundError("alertmanager is not installed")
    with _webhook() as (url, webhook):
        configuration = scaled(yaml.safe_load((CONFIGURATION / "alertmanager.yml").read_text()), factor)
        for receiver in configuration["receivers"]:
            receiver["webhook_configs"] = [{**each, "url": url} for each in receiver["webhook_configs"]]
        (directory / "alertmanager.yml").write_text(yaml.safe_dump(configuration))
        address = f"127.0.0.1:{free_port()}"
        arguments = [
            f"--config.file={directory / 'alertmanager.yml'}",
            f"--storage.path={directory / 'alertmanager'}",
            f"--web.listen-address={address}",
            "--cluster.listen-address=",
        ]
        with running(program, arguments, directory / "alertmanager.log"):
            eventually(lambda: answers(f"http://{address}/-/ready"), within=30)
            yield address, webhook


@contextmanager
def _webhook() -> Iterator[tuple[str, Webhook]]:
    webhook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            webhook.take(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="webhook")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/alerts", webhook
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
