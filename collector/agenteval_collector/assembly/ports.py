"""The ports of the assembly: the log and the store that it reads, and the stages that it hands on to."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from agenteval_collector.model.assembled_trace import AssembledTrace, Death
from agenteval_collector.model.logged_requests import Arrival, LoggedRequest
from agenteval_collector.stores.sender_habits import HabitStore

ScoredRevision: TypeAlias = tuple[int, frozenset[int]]
"""The newest scored revision of a trace, and the offsets of the requests that it was made of."""


class KnownTraces(Protocol):
    """The traces that were scored before, in the store."""

    def known_traces(self, trace_ids: Sequence[str]) -> Mapping[str, ScoredRevision]:
        """Return the traces among these that were scored before. Raises RetryableError."""


class AssemblyStore(Protocol):
    """The part of the store with the checkpoint of the assembly, and the habits of senders."""

    @property
    def habits(self) -> HabitStore: ...

    def checkpoint(self) -> int:
        """Return the saved checkpoint; 0 for a new store."""

    def save_checkpoint(self, offset: int) -> None:
        """Note that everything below this offset of the log is scored."""


class KeptRequests(Protocol):
    """The requests of the log, by offset. Raises RetryableError."""

    def get(self, offsets: Sequence[int]) -> Iterable[LoggedRequest]:
        """Return the requests at these offsets, without those that are gone."""


class ReplayableLog(Protocol):
    """The log, which is read again after a restart, and trimmed of scored requests."""

    def read(self, start: int) -> Iterable[LoggedRequest]: ...

    def last_offset(self) -> int: ...

    def trim(self, below: int, older_than: int, batch: int, but: Collection[int] = ()) -> int:
        """Forget the first `batch` requests below an offset that are old enough, except those at the offsets `but`;
        return how many there were."""
        ...


class TraceTaker(Protocol):
    """The evaluation, which takes complete traces."""

    def take_trace(self, trace: AssembledTrace, timeout: float) -> bool:
        """Take the trace, or return False if there was no room for it within `timeout` seconds."""


class ArrivalTaker(Protocol):
    """Live detection, which takes new spans. Must not block or raise."""

    def take_arrivals(self, arrivals: Sequence[Arrival], size: int) -> None:
        """Take spans, which have `size` bytes of memory together."""


class ReportedSpans(Protocol):
    """The open spans that processes report: only their starts are known. Must not block or raise."""

    def take_ended(self, arrivals: Iterable[Arrival]) -> None:
        """Note that these spans have ended."""

    def goes_on(self, trace_id: str) -> bool:
        """Return whether a span of the trace is open in a process that lives, or whose death `take_died` has not told
        yet."""

    def death(self, trace_id: str) -> Death | None:
        """Return the death of the trace's agent; None if it lives, or has no span open."""

    def take_died(self) -> Sequence[str]:
        """Return the traces whose agents have died since the last call, each once."""

    def take_scored(self, trace_id: str) -> None:
        """Note that a revision of the trace is stored."""


class Unconnected:
    """Stands around an assembler that works alone, on recordings that are read once: no store, no log, no live
    detection, no open spans."""

    def known_traces(self, trace_ids: Sequence[str]) -> dict[str, ScoredRevision]:
        return {}

    def get(self, offsets: Sequence[int]) -> Sequence[LoggedRequest]:
        return ()

    def take_arrivals(self, arrivals: Sequence[Arrival], size: int) -> None: ...

    def take_ended(self, arrivals: Iterable[Arrival]) -> None: ...

    def goes_on(self, trace_id: str) -> bool:
        return False

    def death(self, trace_id: str) -> Death | None:
        return None

    def take_died(self) -> Sequence[str]:
        return ()

    def take_scored(self, trace_id: str) -> None: ...


ALONE: Final = Unconnected()
