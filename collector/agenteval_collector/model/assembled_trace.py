"""A trace as the assembly puts it together, and why it was taken for complete."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agenteval_collector.model.logged_requests import (
    LOG_BYTES,
    OFFSET_BYTES,
    SPAN_BYTES,
    TRACE_BYTES,
    Origin,
    item_bytes,
)
from agenteval_collector.model.running_traces import UnendedSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The death of a trace's agent: every process that had spans open fell silent.

    `reason` is a sentence. `open_spans` are by start. `heard_at` is when an open span was last reported; None if
    none was reported as started. Times are in nanoseconds since the Unix epoch.
    """

    reason: str
    session_id: str | None
    agent: str | None
    service: str | None
    started_at: int
    heard_at: int
    open_spans: Sequence[UnendedSpan]


class ClosedBy(StrEnum):
    """The reason why a trace was taken for complete."""

    COUNT = "count"
    ROOT = "root"
    SHORT = "short"
    LOGS = "logs"
    SILENCE = "silence"
    MAX_AGE = "max_age"
    MEMORY = "memory"
    DEATH = "death"
    RETRY = "retry"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The reason why a trace was taken for complete.

    `reason` is a phrase without a full stop. `senders` are sentences about the senders of missing parents or log
    records. `partial`: more of the trace was expected.
    """

    by: ClosedBy
    reason: str
    partial: bool = False
    senders: Sequence[str] = ()


# Not frozen, though nobody changes it: a frozen one takes thrice as long to make.
@dataclass(slots=True, kw_only=True)
class AssembledTrace:
    """A trace at one revision: its serialized spans and log records with their origins, in order of arrival.

    `offsets` are the requests they came in. `missing` counts spans that their sender counted and that did not come.
    `death`: its agent died in the middle; there may be no spans then. `received_at` is when the newest of this was
    received, or the agent was last heard of, in nanoseconds since the Unix epoch. It is by the collector's clock, as
    agents' clocks may say anything.

    `complete` is False for a look at an open trace. `closing` is None then, and for an earlier revision. `waits_for`
    says what an open trace waits for. `session` is the session that its attributes name, else its own id; None until
    somebody asks.
    """

    trace_id: str
    tenant: str
    revision: int
    spans: Sequence[tuple[bytes, Origin]]
    logs: Sequence[tuple[bytes, Origin]]
    offsets: Sequence[int]
    received_at: int
    missing: int = 0
    complete: bool = True
    death: Death | None = None
    closing: Closing | None = None
    waits_for: Sequence[str] = ()
    session: str | None = None
    counted: int | None = None
    """Its `size`, if that was counted while it was put together."""

    @property
    def size(self) -> int:
        """Bytes of memory that it takes, as an open one does."""
        if self.counted is not None:
            return self.counted
        size = TRACE_BYTES + OFFSET_BYTES * len(self.offsets)
        size += sum(SPAN_BYTES + item_bytes(raw) for raw, _ in self.spans)
        return size + sum(LOG_BYTES + item_bytes(raw) for raw, _ in self.logs)

    @property
    def processes(self) -> frozenset[str]:
        """The processes that sent its spans, and the senders of spans without a process (`participant_of`)."""
        # By identity, as to hash an origin for each span takes long.
        origins = {id(origin): origin for _, origin in self.spans}.values()
        return frozenset(participant for origin in origins if (participant := origin.participant) is not None)
