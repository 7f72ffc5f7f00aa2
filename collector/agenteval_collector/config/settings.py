"""The settings of the collector as a whole, and those of its parts that have no module of their own."""

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
from agenteval_collector.config.notify import NotifyConfig
from agenteval_collector.config.objectives import ObjectiveConfig
from agenteval_collector.config.values import (
    MIB,
    Address,
    Bytes,
    Header,
    Network,
    OffIsFalse,
    PriceConfig,
    Seconds,
    Section,
    Share,
    Url,
    of_scheme,
    twice,
)
from agenteval_collector.runtime.logs import LogFormat, LogLevel
from otel_agenteval.conventions.own_readings import FACTS
from otel_agenteval.loops.settings import LoopSettings, loop_settings
from otel_agenteval.redaction import OwnPatterns


def _fact(name: str) -> str:
    if name not in FACTS:
        raise ValueError(f"{name} is no fact: it is one of {', '.join(FACTS)}")
    return name


class SenderConfig(Section):
    """Settings for the spans of a service. What is not set is learned from the service's last traces."""

    outermost: tuple[str, ...] = ()
    """Operations whose parent span never comes: `gen_ai.operation.name`, else the first word of the span's name."""
    remote_parents: Literal["wait", "ignore"] | None = None
    """`wait` for the parent spans of calling services, because these send their spans here too, or `ignore` them."""
    logs: bool | None = None
    """True if the content of the service's model calls comes in log records."""


class AssemblyConfig(Section):
    """Rules that say when a trace without a count of its spans is complete, and bounds for the memory of traces."""

    settle: Seconds = 0.25
    """Seconds without anything new until a trace with its root and all parents is complete."""
    settle_logs: Seconds = 5.0
    """Seconds without anything new until a trace is complete that lacks log records with content, or counted spans."""
    silence: Seconds = 60.0
    """Seconds without anything new until a trace is complete that lacks a parent which may or may not come."""
    max_age: Seconds = 600.0
    """Seconds from a trace's first span until the trace is scored as it stands, even if another wait is longer."""
    max_open_bytes: Bytes = Field(default=512 * MIB, gt=0)
    """Bytes of memory for spans of incomplete traces. Above this, the oldest trace is scored as it stands."""
    max_recent_bytes: Bytes = Field(default=32 * MIB, ge=0)
    """Bytes of memory for spans of the traces that were scored last, so that late spans need no reading of the log."""
    senders: dict[str, SenderConfig] = Field(default_factory=dict)
    """Settings by `service.name`."""


class PatternConfig(Section):
    """A pattern of the user's own, in the syntax of RE2. A placeholder with its name replaces each match."""

    name: str
    pattern: str


def _readable(patterns: tuple[PatternConfig, ...]) -> tuple[PatternConfig, ...]:
    if repeated := twice([pattern.name.upper() for pattern in patterns]):
        raise ValueError(f"two patterns are called {', '.join(repeated)}: give each a name of its own")
    OwnPatterns({one.name: one.pattern for one in patterns})
    return patterns


class RedactionConfig(Section):
    """Settings of redaction, apart from that for the judge (`judge.redact`)."""

    store: Annotated[Literal["off", "secrets", "all"], OffIsFalse] = "off"
    """The data that is replaced before a request is kept: `secrets`, or personal data too (`all`)."""
    patterns: Annotated[tuple[PatternConfig, ...], AfterValidator(_readable)] = ()
    """Patterns whose matches are replaced wherever secrets are."""
    unknown_tokens: bool = False
    """Replace long random tokens of no known form as well, wherever secrets are replaced. Some ids look alike."""

    @property
    def own(self) -> OwnPatterns | None:
        """The user's own patterns, compiled, with the net for unknown tokens; None if there are neither."""
        if not self.patterns and not self.unknown_tokens:
            return None
        return OwnPatterns({one.name: one.pattern for one in self.patterns}, tokens=self.unknown_tokens)


DAY: Final = 24 * 3600.0
"""A day in seconds."""
POSTGRESQL: Final = "postgresql+psycopg://"
KAFKA: Final = "kafka://"


class ProcessRole(StrEnum):
    """The part of the work that a process does (docs/scaling.md)."""

    ALL = "all"
    RECEIVE = "receive"
    ASSEMBLE = "assemble"
    EVALUATE = "evaluate"
    SERVE = "serve"

    def does(self, role_part: "ProcessRole") -> bool:
        """Return whether a process of this role does that part."""
        return self in (ProcessRole.ALL, role_part)


class QuotaConfig(Section):
    """The most that one sender may send in a second, as an average over ten. None: no limit."""

    spans: float | None = Field(default=None, gt=0)
    """Spans and log records."""
    bytes: Bytes | None = Field(default=None, gt=0)
    """Bytes of requests, after decompression."""
    traces: float | None = Field(default=None, gt=0)
    """New traces."""


class QuotasConfig(Section):
    """What callers may send before they are told to wait."""

    tenant: QuotaConfig = QuotaConfig()
    """The quota of each tenant, all its keys together."""
    key: QuotaConfig = QuotaConfig()
    """The quota of each key."""
    backlog: Seconds = Field(default=60.0, gt=0)
    """Seconds of work that may wait for a tenant, at the pace of its last minute of work. Above this, its senders are
    told to wait."""


class ServerConfig(Section):
    """The addresses of the collector, and its demands on clients and requests."""

    grpc_address: Address = "127.0.0.1:4317"
    """Address of OTLP/gRPC and of our own service."""
    http_address: Address = "127.0.0.1:4318"
    """Address of OTLP/HTTP."""
    web_address: Address = "127.0.0.1:4319"
    """Address of the API, the Prometheus metrics and the pages."""
    insecure: bool = False
    """True if addresses beyond loopback are allowed without TLS and keys."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    """The authority (PEM) of client certificates. With it, every client on the OTLP ports needs a certificate."""
    keys: KeyConfigs = ()
    """The callers and their keys (`authorization: Bearer KEY`). A plain text is a key with all scopes.

    Without any key here or in `keys_file`, callers need none.
    """
    keys_file: Path | None = None
    """A YAML file with a list of further `keys`. It is read again when it changes."""
    log_level: LogLevel = "info"
    """The least level of the records that are written to stderr."""
    log_format: LogFormat = "text"
    """Lines for people (`text`), or a line of JSON for each record (`json`)."""
    user_header: Header | None = None
    """The header in which an identity proxy names the person who is logged in.

    Labels and marks of problems are then by that person, whatever they say. It needs keys: the proxy sends one.
    """
    user_proxies: tuple[Network, ...] = ("127.0.0.0/8", "::1/128")
    """Networks of the proxy. From elsewhere the header is not believed."""
    memory_limit: Bytes | None = Field(default=None, gt=0)
    """Bytes of resident memory that the process may have.

    Near this, requests are refused, then open traces are scored as they stand. None: the limit of the control group,
    else 60 % of the machine's memory.
    """
    workers: int | None = Field(default=None, ge=1, le=64)
    """Processes that read and score traces, once more waits than one process can do. 1: this process does it all.

    None: the cores, at most 8, and at most as many as half of the memory holds.
    """
    worker_memory: Bytes = Field(default=512 * MIB, ge=256 * MIB)
    """Bytes of resident memory that a worker process may have. One that takes more is replaced."""
    max_request_bytes: Bytes = Field(default=64 * MIB, gt=0)
    """Largest request in bytes after decompression. Larger requests are refused."""
    max_span_bytes: Bytes = Field(default=4 * MIB, gt=0)
    """Largest span or log record in bytes. Of larger ones the largest values are cut."""
    max_trace_bytes: Bytes = Field(default=16 * MIB, ge=MIB)
    """Largest trace in bytes of memory, with its spans as they came. Of larger ones the largest values are cut."""
    quotas: QuotasConfig = QuotasConfig()
    max_series: int = Field(default=20_000, ge=1_000)
    """Series of counters and histograms of a tenant. Idle ones make room for new ones; beyond that, new tools, then
    versions, then agents count as `_other`."""


class LogConfig(Section):
    """The durable log of requests."""

    retention: Seconds = 24 * 3600.0
    """Seconds that requests are kept after they were scored, so that late spans can join their trace."""
    max_pending_bytes: Bytes = Field(default=128 * MIB, gt=0)
    """Bytes of requests that are acknowledged but not assembled yet. Above this, senders are told to wait."""
    url: Annotated[Url, of_scheme(KAFKA, "host:9092")] = None
    """Brokers for the log of several processes: `kafka://host:9092,host:9092`. None: a file in `data_dir`."""
    partitions: int = Field(default=12, ge=1, le=10_000)
    """Number of partitions of a new topic. At most this many processes of a role can share the topic."""


class StoreConfig(Section):
    """The database of outcomes, findings, sessions and runs."""

    url: Annotated[Url, of_scheme(POSTGRESQL, "user@host/database")] = None
    """Address of a server: `postgresql+psycopg://user@host/database`. None: a SQLite file in `data_dir`."""


class RetentionConfig(Section):
    """Times for which data is kept. Content is removed before the findings and scores that were made from it."""

    content: Seconds = 30 * DAY
    """Seconds that messages, arguments, results, notes and the reasons of scores are kept."""
    outcomes: Seconds = 400 * DAY
    """Seconds that scores, findings, sessions, runs and the sums of problems and agents are kept."""
    max_bytes: int | None = Field(default=None, gt=0)
    """Bytes of the log and the store together. None: half of what is free at the start; no limit with `store.url`.

    Above this, the oldest content is removed, then the oldest outcomes.
    """

    @model_validator(mode="after")
    def _content_goes_first(self) -> Self:
        if self.content > self.outcomes:
            raise ValueError(f"content ({self.content:g} s) is kept longer than outcomes ({self.outcomes:g} s)")
        return self


class SessionConfig(Section):
    """Settings of sessions: their names, their end, and the coverage that a score needs."""

    attributes: tuple[str, ...] = ()
    """Attributes of spans, log records or resources that hold a session's id, the first before the others.

    They only count if no attribute of a convention names the session.
    """
    link_by: str | None = None
    """An attribute that is no session's id. Traces of one service with the same value of it are one session."""
    placeholders: tuple[str, ...] = ()
    """Texts that are no ids, beside those that are known ("undefined", "None", "local", zeros and others)."""

    idle: Seconds = 900.0
    """Seconds without a trace until a session is idle and its scores enter the histogram."""
    min_coverage: Share = 0.5
    """A session with less than this share of its signals has no score."""


class ReadingsConfig(Section):
    """The facts that stand under names of the user's own, for frameworks that no dialect knows."""

    attributes: dict[str, Annotated[str, AfterValidator(_fact)]] = Field(default_factory=dict)
    """The fact that an attribute holds, such as `acme.question: input`: `session`, `user`, `agent`, `input`, `output`,
    `instructions`, `tool`, `call_id`, `arguments`, `result`, `model`, `input_tokens` or `output_tokens`."""
    spans: dict[str, Literal["agent", "workflow", "model", "tool"]] = Field(default_factory=dict)
    """The part that spans of a name play, such as `acme.ask: model`. A name may end in `*`."""


class ExportConfig(Section):
    """Push of scores over OTLP. Only these settings count, never the OTEL_EXPORTER_* variables."""

    endpoint: Url = None
    """`http://host:port` (without encryption) or `https://host:port`. None: nothing is pushed.

    Over HTTP it may have a path, if the backend's endpoint has one.
    """
    protocol: Literal["grpc", "http/protobuf"] = "grpc"
    events: bool = True
    """False: only metrics are pushed, for a backend that takes no log records, such as Prometheus."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    certificate: Path | None = None
    """CA certificate (PEM) that is trusted instead of the system's."""
    interval: Seconds = 15.0
    """Seconds between two pushes of metrics."""


def _loops(value: object) -> LoopSettings:
    # The client's own function checks these settings, because they have the same schema there.
    return value if isinstance(value, LoopSettings) else loop_settings(value)


class Settings(Section):
    """All settings of the collector."""

    data_dir: Path = Field(default_factory=lambda: _data_home() / "otel-agenteval")
    role: ProcessRole = ProcessRole.ALL
    """The part of the work that this process does. Any role but `all` needs `log.url`."""
    server: ServerConfig = ServerConfig()
    log: LogConfig = LogConfig()
    store: StoreConfig = StoreConfig()
    retention: RetentionConfig = RetentionConfig()
    assembly: AssemblyConfig = AssemblyConfig()
    session: SessionConfig = SessionConfig()
    readings: ReadingsConfig = ReadingsConfig()
    embedder: EmbedderConfig = EmbedderConfig()
    evaluators: EvaluatorsConfig = EvaluatorsConfig()
    judge: JudgeConfig = JudgeConfig()
    redaction: RedactionConfig = RedactionConfig()
    prices: dict[str, PriceConfig] = Field(default_factory=dict)
    """Prices of the agents' models, by model. They come before the published prices."""
    reliability: ReliabilityConfig = ReliabilityConfig()
    loops: Annotated[LoopSettings, PlainValidator(_loops), PlainSerializer(asdict)] = LoopSettings()
    """Settings of the loop detectors, in the same schema as in the agent's process (docs/loops.md)."""
    findings: FindingsConfig = FindingsConfig()
    objectives: dict[str, ObjectiveConfig] = Field(default_factory=dict)
    """What is expected of agents, by `gen_ai.agent.name`. Alarms compare with it in place of the agent's past."""
    notify: NotifyConfig = NotifyConfig()
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
