"""Assembled traces, with the reason why each was taken for complete."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agenteval_collector.model.logged_requests import LOG_BYTES, OFFSET_BYTES, SPAN_BYTES, TRACE_BYTES, Origin
from agenteval_collector.model.running_traces import UnendedSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The death of a trace's agent: every process that had spans open fell silent.

    `reason` says so in a sentence, `open_spans` are those that were open, by start. `heard_at` is when one
    of them was heard of last. None: no start that was reported tells it. Times in nanoseconds since the Unix epoch.
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
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The reason why a trace was taken for complete, as a phrase without a full stop. `senders` are sentences about the
    senders of missing parents or log records. `partial`: more of it was expected."""

    by: ClosedBy
    reason: str
    partial: bool = False
    senders: Sequence[str] = ()


# Not frozen, though nobody changes it: a frozen one takes thrice as long to make.
@dataclass(slots=True, kw_only=True)
class AssembledTrace:
    """All of a trace at one revision: serialized spans and log records with their origins, in order of arrival.

    `offsets` are the requests they came in. `missing` counts spans that their sender says it handed over and that
    did not come. `complete` is False for a look at a trace that is still open. `death`: its agent died in the middle;
    there may be no spans then. `received_at` is when the newest of all this was received, or the agent last heard of
    (ns since the Unix epoch, by the clock of the collector: those of agents may say anything). `closing` is None for
    such a look, and for one at an earlier revision; `waits_for` tells, in a look at an open one, what it waits for.
    `session` is the session that its attributes name, else its own id; None as long as nobody has asked.
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

    @property
    def size(self) -> int:
        """Bytes of memory that it takes, as an open one does."""
        size = TRACE_BYTES + OFFSET_BYTES * len(self.offsets)
        size += sum(SPAN_BYTES + len(raw) for raw, _ in self.spans)
        return size + sum(LOG_BYTES + len(raw) for raw, _ in self.logs)

    @property
    def processes(self) -> frozenset[str]:
        """The processes that sent its spans, as far as our processor named them."""
        return frozenset(origin.process for _, origin in self.spans if origin.process is not None)
