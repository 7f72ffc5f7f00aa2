"""The SDK's exporters over HTTP, by what the settings say alone."""

from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

from agenteval_collector.emit.target import POINTS_PER_REQUEST, PushTarget


def metric_exporter(target: PushTarget) -> OTLPMetricExporter:
    """Make an exporter of metrics."""
    return OTLPMetricExporter(max_export_batch_size=POINTS_PER_REQUEST, **_arguments(target, "metrics"))


def event_exporter(target: PushTarget) -> OTLPLogExporter:
    """Make an exporter of events."""
    return OTLPLogExporter(**_arguments(target, "logs"))


def _arguments(target: PushTarget, signal: str) -> dict[str, Any]:
    session = requests.Session()
    # Else a .netrc file would replace our headers, and variables our certificate.
    session.trust_env = False
    session.hooks["response"].append(_refuse_redirects)
    return {
        "endpoint": f"{target.endpoint.rstrip('/')}/v1/{signal}",
        "certificate_file": None if target.certificate is None else str(target.certificate),
        "headers": dict(target.headers),
        "timeout": target.timeout,
        "compression": Compression.Gzip,
        "session": session,
    }


def _refuse_redirects(response: requests.Response, **_: Any) -> None:
    """Raise for an answer that the exporter takes for a success, though nothing was taken."""
    if 300 <= response.status_code < 400:
        response.close()
        where = response.headers.get("location", "")
        raise requests.RequestException(f"{response.url} redirects to {where[:200]!r}: is export.endpoint right?")
