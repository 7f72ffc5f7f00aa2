"""The endpoint of a push, and the SDK's exporters for it: OTLP over gRPC or over HTTP."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import grpc
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk._logs.export import LogRecordExporter
from opentelemetry.sdk.metrics.export import MetricExporter

if TYPE_CHECKING:
    import requests

Protocol: TypeAlias = Literal["grpc", "http/protobuf"]

POINTS_PER_REQUEST: Final = 2000
"""Points in one request. That many stay far below gRPC's usual limit of 4 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTarget:
    """The endpoint of a push: `http://host:port` (plain) or `https://host:port` (TLS). With OTLP over HTTP it may have
    a path, and `/v1/metrics` or `/v1/logs` is added.

    `certificate` is a PEM file with authorities that replace the system's. `events` says whether events are pushed
    beside metrics. `interval` is the seconds between two pushes of metrics; `timeout` those for one export with its
    retries. Raises ValueError for a value that is not possible, and OSError for a certificate that cannot be read.
    """

    endpoint: str
    protocol: Protocol = "grpc"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: Path | None = None
    events: bool = True
    interval: float = 10.0
    timeout: float = 5.0

    def __post_init__(self) -> None:
        url = urlsplit(self.endpoint)
        if url.scheme not in {"http", "https"} or not url.hostname or url.query:
            raise ValueError(f"export endpoint {self.endpoint!r} must be http://host:port or https://host:port")
        if self.protocol == "grpc" and url.path.strip("/"):
            raise ValueError(
                f"export endpoint {self.endpoint!r} must be without a path, which only protocol http/protobuf has"
            )
        if self.certificate is not None:
            if url.scheme == "http":
                raise ValueError(f"a certificate was given but export endpoint {self.endpoint!r} is not https")
            self.certificate.read_bytes()
        for name, value in self.headers.items():
            if not re.fullmatch(r"[0-9A-Za-z_.-]+", name) or name.lower().endswith("-bin"):
                raise ValueError(f"export header name {name!r} is not allowed in gRPC metadata")
            if not (value.isascii() and value.isprintable()):
                raise ValueError(f"the value of export header {name!r} has characters other than printable ASCII")
        if self.interval <= 0 or self.timeout <= 0:
            raise ValueError(f"export interval {self.interval} and timeout {self.timeout} must be above 0 seconds")

    def metric_exporter(self) -> MetricExporter:
        """Make an exporter of metrics."""
        if self.protocol == "grpc":
            return OTLPMetricExporter(max_export_batch_size=POINTS_PER_REQUEST, **self._grpc_arguments())
        # Imported here because the HTTP client takes long to import, and most users push over gRPC or not at all.
        from opentelemetry.exporter.otlp.proto.http import metric_exporter as http  # noqa: PLC0415

        return http.OTLPMetricExporter(max_export_batch_size=POINTS_PER_REQUEST, **self._http_arguments("metrics"))

    def event_exporter(self) -> LogRecordExporter:
        """Make an exporter of events."""
        if self.protocol == "grpc":
            return OTLPLogExporter(**self._grpc_arguments())
        from opentelemetry.exporter.otlp.proto.http import _log_exporter as http  # noqa: PLC0415

        return http.OTLPLogExporter(**self._http_arguments("logs"))

    def _grpc_arguments(self) -> dict[str, Any]:
        is_secure = urlsplit(self.endpoint).scheme == "https"
        authorities = None if self.certificate is None else self.certificate.read_bytes()
        return {
            "endpoint": self.endpoint,
            "insecure": not is_secure,
            "credentials": grpc.ssl_channel_credentials(authorities) if is_secure else None,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "timeout": self.timeout,
            "compression": grpc.Compression.Gzip,
        }

    def _http_arguments(self, signal: str) -> dict[str, Any]:
        import requests  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.http import Compression  # noqa: PLC0415

        session = requests.Session()
        # Otherwise a .netrc file would replace our headers, and environment variables our certificate.
        session.trust_env = False
        session.hooks["response"].append(_refuse_redirects)
        return {
            "endpoint": f"{self.endpoint.rstrip('/')}/v1/{signal}",
            "certificate_file": None if self.certificate is None else str(self.certificate),
            "headers": dict(self.headers),
            "timeout": self.timeout,
            "compression": Compression.Gzip,
            "session": session,
        }


def _refuse_redirects(response: "requests.Response", **_: Any) -> None:
    """Raise for a redirect: the exporter takes it for a success, though no data was taken."""
    if 300 <= response.status_code < 400:
        import requests  # noqa: PLC0415

        response.close()
        where = response.headers.get("location", "")
        raise requests.RequestException(f"{response.url} redirects to {where[:200]!r}: is export.endpoint right?")
