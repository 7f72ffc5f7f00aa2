"""All settings of the collector, and those of its own doors: what it takes in, keeps and sends on."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from pydantic import Field, PlainSerializer, PlainValidator, SecretStr

from agenteval_collector.config.assembly import AssemblyConfig
from agenteval_collector.config.evaluators import EmbedderConfig, EvaluatorsConfig
from agenteval_collector.config.findings import FindingsConfig
from agenteval_collector.config.judge import JudgeConfig
from agenteval_collector.config.reliability import ReliabilityConfig
from agenteval_collector.config.values import MIB, Address, PriceConfig, Seconds, Section
from otel_agenteval.loops.settings import LoopSettings, loop_settings


class ServerConfig(Section):
    """The addresses of the collector, and what it demands of clients."""

    grpc_address: Address = "127.0.0.1:4317"
    """OTLP/gRPC and our own service."""
    http_address: Address = "127.0.0.1:4318"
    """OTLP/HTTP."""
    web_address: Address = "127.0.0.1:4319"
    """API, Prometheus metrics, page."""
    insecure: bool = False
    """Allow addresses beyond loopback without TLS and keys."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    keys: tuple[SecretStr, ...] = ()
    """Any of these as `authorization: Bearer KEY` opens every port; none: no key is asked for."""
    max_request_bytes: int = Field(default=64 * MIB, gt=0)
    """Larger requests are refused, after decompression."""
    max_span_bytes: int = Field(default=4 * MIB, gt=0)
    """Larger spans and log records are rejected one by one (partial success)."""


class LogConfig(Section):
    """The durable log of requests."""

    retention: Seconds = 24 * 3600.0
    """Seconds that requests are kept after they are scored, so that late spans can join their trace."""
    max_pending_bytes: int = Field(default=128 * MIB, gt=0)
    """Requests that are acknowledged and not assembled yet; above it new ones are told to come back later."""


class SessionConfig(Section):
    """Settings of sessions: their names, their end, and the coverage that a score needs."""

    attributes: tuple[str, ...] = ()
    """Attributes of spans, log records or resources that hold a session's id, the first before the others. They are
    asked where no attribute of a convention names the session."""
    link_by: str | None = None
    """An attribute that is no session's id; traces of one service that agree in its value are one session."""

    idle: Seconds = 900.0
    """Seconds without a trace after which a session is idle and its scores enter the histogram."""
    min_coverage: float = Field(default=0.5, ge=0, le=1)
    """A session with less than this share of its signals has no score."""


class ExportConfig(Section):
    """Push of scores over OTLP/gRPC; only what is set here is used, never OTEL_EXPORTER_* variables."""

    endpoint: str | None = None
    """`http://host:port` (plain text) or `https://host:port`; None: nothing is pushed."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    certificate: Path | None = None
    """CA certificate (PEM) to trust instead of the system's."""
    interval: Seconds = 15.0
    """Seconds between two pushes of metrics."""


def _loops(value: object) -> LoopSettings:
    return value if isinstance(value, LoopSettings) else loop_settings(value)


class Settings(Section):
    """All settings of the collector."""

    data_dir: Path = Field(default_factory=lambda: _data_home() / "otel-agenteval")
    server: ServerConfig = ServerConfig()
    log: LogConfig = LogConfig()
    assembly: AssemblyConfig = AssemblyConfig()
    session: SessionConfig = SessionConfig()
    embedder: EmbedderConfig = EmbedderConfig()
    evaluators: EvaluatorsConfig = EvaluatorsConfig()
    judge: JudgeConfig = JudgeConfig()
    prices: dict[str, PriceConfig] = Field(default_factory=dict)
    """Prices of the agents' models, by model, before those that are published."""
    reliability: ReliabilityConfig = ReliabilityConfig()
    loops: Annotated[LoopSettings, PlainValidator(_loops), PlainSerializer(asdict)] = LoopSettings()
    """The detectors of loops: their schema is the agent's (docs/loops.md)."""
    findings: FindingsConfig = FindingsConfig()
    export: ExportConfig = ExportConfig()


def _data_home() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
