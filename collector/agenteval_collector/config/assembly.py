"""Settings of how traces are put together."""

from typing import Literal

from pydantic import Field

from agenteval_collector.config.values import MIB, Bytes, Seconds, Section


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
