"""The ports around the assembly: the log and the store it reads, and the stages it hands on to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from agenteval_collector.model.assembled_trace import AssembledTrace, Death
from agenteval_collector.model.logged_requests import Arrival, LoggedRequest
from agenteval_collector.model.senders import HabitMemory

Known: TypeAlias = tuple[int, frozenset[int]]
"""The newest scored revision of a trace, and the offsets of the requests that it was made of."""


class KnownTraces(Protocol):
    """The traces that were scored before, in the store."""

    def known_traces(self, trace_ids: Sequence[str]) -> Mapping[str, Known]:
        """Return those that were scored before. Raises RetryableError."""


class AssemblyStore(Protocol):
    """The part of the store that holds how far the assembly has come."""

    @property
    def habits(self) -> HabitMemory: ...

    def checkpoint(self) -> int:
        """Return the saved checkpoint; 0 for a new store."""

    def save_checkpoint(self, offset: int) -> None:
        """Note that everything below this offset of the log is scored."""


class KeptRequests(Protocol):
    """The requests of the log, by offset. Raises RetryableError."""

    def get(self, offsets: Sequence[int]) -> Iterable[LoggedRequest]:
        """Return the requests at these offsets; those that are gone are left out."""


class ReplayableLog(Protocol):
    """The log, read again after a restart and trimmed of what is scored."""

    def read(self, start: int) -> Iterable[LoggedRequest]: ...

    def last_offset(self) -> int: ...

    def trim(self, below: int, older_than: int, batch: int) -> int:
        """Forget the first `batch` requests below an offset that are old enough; return how many there were."""
        ...


class Memory(Protocol):
    """The memory of the process."""

    @property
    def excess(self) -> int:
        """Bytes that have to be released early; 0 while there is room."""
        ...


class TraceTaker(Protocol):
    """Takes complete traces; the evaluation."""

    def take_trace(self, trace: AssembledTrace, timeout: float) -> bool:
        """Take the trace, or return False where there was no room for it within `timeout` seconds."""


class ArrivalTaker(Protocol):
    """Takes spans that were not known before; live detection. Must not block or raise."""

    def take_arrivals(self, arrivals: Sequence[Arrival], size: int) -> None:
        """Take spans that take `size` bytes of memory."""


class ReportedSpans(Protocol):
    """The open spans that processes report, whose starts alone are known. Must not block or raise."""

    def take_ended(self, arrivals: Iterable[Arrival]) -> None:
        """Note that these spans have ended."""

    def goes_on(self, trace_id: str) -> bool:
        """Return whether a span of the trace is open in a process that lives, or whose death was not told yet."""

    def death(self, trace_id: str) -> Death | None:
        """Return the death of the trace's agent; None where it lives, and where nothing is open."""

    def died(self) -> Sequence[str]:
        """Return the traces whose agents have died since this was asked last."""

    def closed(self, trace_id: str) -> None:
        """Note that a revision of the trace is stored."""
