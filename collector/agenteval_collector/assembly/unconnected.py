"""Neighbours for an assembler that works alone, on recordings that are read once."""

from collections.abc import Iterable, Sequence

from agenteval_collector.assembly.ports import ScoredRevision
from agenteval_collector.model.assembled_trace import Death
from agenteval_collector.model.logged_requests import Arrival, LoggedRequest


class Unconnected:
    """Fills all ports of an assembler with nothing: no stored traces, no log, no live detection, no open spans."""

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
