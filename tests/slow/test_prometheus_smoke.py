import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from agenteval_collector.emit.telemetry import TelemetryOutput

from tests.support import prometheus
from tests.support.evaluations import committed
from tests.support.eventually import eventually
from tests.support.sessions import Level, Sessions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("prometheus") is None,
        reason="prometheus is not installed (Debian: apt install prometheus)",
    ),
]


@contextmanager
def serving(telemetry: TelemetryOutput) -> Iterator[str]:
    """The page of `telemetry` over HTTP; yields its address."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body, content_type = telemetry.render()
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Say nothing of requests that went well."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def test_prometheus_scrapes_scores_and_the_rule_fires_and_resolves(tmp_path: Path) -> None:
    telemetry = TelemetryOutput(version="9.8.7", instance_id="i-1")
    sessions = Sessions(Level("planner", "shop", "agent_reliability", 10, 6))
    telemetry.evaluations.observe_sessions(sessions)
    telemetry.evaluations.accept([committed()])
    with serving(telemetry) as metrics_url, prometheus.start(metrics_url, tmp_path) as server:
        mean = "gen_ai_evaluation_score_sum / gen_ai_evaluation_score_count"
        [score] = eventually(lambda: server.query(mean), within=30)
        assert score["value"][1] == "0.75"
        assert score["metric"]["gen_ai_evaluation_name"] == "coherence"

        [alert] = eventually(lambda: [alert for alert in server.alerts() if alert["state"] == "firing"], within=30)
        assert alert["labels"]["alertname"] == "AgentSessionsLow"
        assert alert["labels"]["gen_ai_agent_name"] == "planner"
        assert alert["annotations"]["summary"].startswith("6 active sessions of agent planner (shop) are low")

        sessions.levels = (Level("planner", "shop", "agent_reliability", 10, 1),)
        eventually(lambda: not server.alerts(), within=30)
