"""The settings of the collector, with those of its ports, its log, its assembly, its redaction and its push."""

import os
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, SecretStr, model_validator

from agenteval_collector.config.evaluators import EmbedderConfig, EvaluatorsConfig, ReliabilityConfig
from agenteval_collector.config.findings import FindingsConfig
from agenteval_collector.config.judge import JudgeConfig
from agenteval_collector.config.keys import KeyConfigs
from agenteval_collector.config.values import (
    MIB,
    Address,
    Bytes,
    OffIsFalse,
    PriceConfig,
    Seconds,
    Section,
    Share,
    Url,
    of_scheme,
    twice,
)
from otel_agenteval.loops.settings import LoopSettings, loop_settings
from otel_agenteval.redaction import OwnPatterns


class SenderConfig(Section):
    """Settings for a service's spans, in place of what would be learned from its last traces. None: learned."""

    outermost: tuple[str, ...] = ()
    """Operations (`gen_ai.operation.name`, else the first word of a span's name) whose parent never comes."""
    remote_parents: Literal["wait", "ignore"] | None = None
    """Wait for spans of the services that call this one, because they come here too, or ignore them."""
    logs: bool | None = None
    """True where the content of its model calls comes in log records."""


class AssemblyConfig(Section):
    """Rules for the completion of traces without a count of their spans, and bounds for what is held in memory."""

    settle: Seconds = 0.25
    """Seconds without anything new after which a trace with its root and all parents is complete."""
    settle_logs: Seconds = 5.0
    """The same where log records with its content, or spans that were counted, are still missing."""
    silence: Seconds = 60.0
    """The same where a parent is missing, of a sender of which it is not known whether its parents come."""
    max_age: Seconds = 600.0
    """Seconds since its first span after which a trace is scored as it stands, even where another wait is longer."""
    max_open_bytes: Bytes = Field(default=512 * MIB, gt=0)
    """Memory for spans of incomplete traces; above it the oldest trace is released early."""
    max_recent_bytes: Bytes = Field(default=32 * MIB, ge=0)
    """Memory for spans of traces that were scored last: what comes late for them costs no reading of the log."""
    senders: dict[str, SenderConfig] = Field(default_factory=dict)
    """By service.name."""


class PatternConfig(Section):
    """A pattern of the user's own, in RE2. What it matches is replaced by a placeholder with its name."""

    name: str
    pattern: str


def _readable(patterns: tuple[PatternConfig, ...]) -> tuple[PatternConfig, ...]:
    if repeated := twice([each.name.upper() for each in patterns]):
        raise ValueError(f"two patterns are called {', '.join(repeated)}: give each a name of its own")
    OwnPatterns({each.name: each.pattern for each in patterns})
    return patterns


class RedactionConfig(Section):
    """What is replaced, beside what a judge never gets to see (`judge.redact`)."""

    store: Annotated[Literal["off", "secrets", "all"], OffIsFalse] = "off"
    """What is replaced before a request is kept: `secrets`, or personal data too (`all`)."""
    patterns: Annotated[tuple[PatternConfig, ...], AfterValidator(_readable)] = ()
    """Replaced wherever secrets are."""

    @property
    def own(self) -> OwnPatterns | None:
        """The patterns, compiled; None where there are none."""
        return OwnPatterns({each.name: each.pattern for each in self.patterns}) if self.patterns else None


DAY: Final = 24 * 3600.0
"""Seconds."""
POSTGRESQL: Final = "postgresql+psycopg://"
KAFKA: Final = "kafka://"


class ProcessRole(StrEnum):
    """The part of the work that a process does (docs/scaling.md)."""

    ALL = "all"
    RECEIVE = "receive"
    ASSEMBLE = "assemble"
    EVALUATE = "evaluate"
    SERVE = "serve"

    def does(self, part: "ProcessRole") -> bool:
        """Return whether a process of this role does that part."""
        return self in (ProcessRole.ALL, part)


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
    tls_client_ca: Path | None = None
    """The authority (PEM) of client certificates. On the OTLP ports every client then needs one."""
    keys: KeyConfigs = ()
    """Who may call, with `authorization: Bearer KEY`. A plain text is a key with all scopes; none: no key is asked
    for."""
    keys_file: Path | None = None
    """A YAML list of further `keys`; read again when it changes."""
    memory_limit: Bytes | None = Field(default=None, gt=0)
    """Resident memory of the process: near it, requests are refused, then open traces are scored as they stand. None:
    the limit of the control group, else 60 % of the machine's memory."""
    max_request_bytes: Bytes = Field(default=64 * MIB, gt=0)
    """Larger requests are refused, after decompression."""
    max_span_bytes: Bytes = Field(default=4 * MIB, gt=0)
    """Larger spans and log records are rejected one by one (partial success)."""


class LogConfig(Section):
    """The durable log of requests."""

    retention: Seconds = 24 * 3600.0
    """Seconds that requests are kept after they are scored, so that late spans can join their trace."""
    max_pending_bytes: Bytes = Field(default=128 * MIB, gt=0)
    """Requests that are acknowledged and not assembled yet; above it new ones are told to come back later."""
    url: Annotated[Url, of_scheme(KAFKA, "host:9092")] = None
    """`kafka://host:9092,host:9092`, for several processes; None: a file in `data_dir`."""
    partitions: int = Field(default=12, ge=1, le=10_000)
    """Of a new topic: as many processes can share it at most."""


class StoreConfig(Section):
    """Where traces, scores and sessions are kept."""

    url: Annotated[Url, of_scheme(POSTGRESQL, "user@host/database")] = None
    """`postgresql+psycopg://user@host/database`; None: a SQLite file in `data_dir`."""


class RetentionConfig(Section):
    """Times for which data is kept. Content goes before what was found in it and scored."""

    content: Seconds = 30 * DAY
    """Seconds that messages, arguments, results, notes and the reasons of scores are kept."""
    outcomes: Seconds = 400 * DAY
    """Seconds that scores, findings, sessions, runs and the sums of problems and agents are kept."""
    max_bytes: int | None = Field(default=None, gt=0)
    """Bytes of the log and the store together; above it the oldest content goes, then the oldest outcomes. None: no
    limit."""

    @model_validator(mode="after")
    def _content_goes_first(self) -> Self:
        if self.content > self.outcomes:
            raise ValueError(f"content ({self.content:g} s) is kept longer than outcomes ({self.outcomes:g} s)")
        return self


class SessionConfig(Section):
    """Settings of sessions: their names, their end, and the coverage that a score needs."""

    attributes: tuple[str, ...] = ()
    """Attributes of spans, log records or resources that hold a session's id, the first before the others. They are
    asked where no attribute of a convention names the session."""
    link_by: str | None = None
    """An attribute that is no session's id; traces of one service that agree in its value are one session."""

    idle: Seconds = 900.0
    """Seconds without a trace after which a session is idle and its scores enter the histogram."""
    min_coverage: Share = 0.5
    """A session with less than this share of its signals has no score."""


class ExportConfig(Section):
    """Push of scores over OTLP; only what is set here is used, never OTEL_EXPORTER_* variables."""

    endpoint: Url = None
    """`http://host:port` (plain text) or `https://host:port`, over HTTP with a path where the endpoint has one; None:
    nothing is pushed."""
    protocol: Literal["grpc", "http/protobuf"] = "grpc"
    events: bool = True
    """False: metrics alone, for a backend without log records, such as Prometheus."""
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
    role: ProcessRole = ProcessRole.ALL
    """What this process does of the work; other than all of it takes `log.url`."""
    server: ServerConfig = ServerConfig()
    log: LogConfig = LogConfig()
    store: StoreConfig = StoreConfig()
    retention: RetentionConfig = RetentionConfig()
    assembly: AssemblyConfig = AssemblyConfig()
    session: SessionConfig = SessionConfig()
    embedder: EmbedderConfig = EmbedderConfig()
    evaluators: EvaluatorsConfig = EvaluatorsConfig()
    judge: JudgeConfig = JudgeConfig()
    redaction: RedactionConfig = RedactionConfig()
    prices: dict[str, PriceConfig] = Field(default_factory=dict)
    """Prices of the agents' models, by model, before those that are published."""
    reliability: ReliabilityConfig = ReliabilityConfig()
    loops: Annotated[LoopSettings, PlainValidator(_loops), PlainSerializer(asdict)] = LoopSettings()
    """The detectors of loops: their schema is the agent's (docs/loops.md)."""
    findings: FindingsConfig = FindingsConfig()
    export: ExportConfig = ExportConfig()

    @model_validator(mode="after")
    def _bytes_are_of_files(self) -> Self:
        if self.store.url is not None and self.retention.max_bytes is not None:
            raise ValueError("retention.max_bytes counts files: with store.url, retention.content bounds what is kept")
        return self

    @model_validator(mode="after")
    def _shares_what_others_need(self) -> Self:
        if self.role is not ProcessRole.ALL and self.log.url is None:
            raise ValueError(f"role {self.role} needs log.url, by which it works with the other roles")
        if self.log.url is not None and self.store.url is None:
            raise ValueError("log.url needs store.url: the processes that share a log share a store")
        return self


def _data_home() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
