"""The sessions of a process that evaluates alone: all of them."""

from collections.abc import Callable, Collection, Sequence

from agenteval_collector.model.assembled_trace import AssembledTrace


class EverySession:
    """The `OwnSessions` of a process that evaluates all sessions. No other process takes any of them."""

    is_all = True

    def owns(self, session_id: str) -> bool:
        return True

    def is_in(self, session_id: str, partitions: Collection[int]) -> bool:
        return True

    def still_own(self, traces: Sequence[AssembledTrace]) -> Sequence[AssembledTrace]:
        return traces

    def not_stored(self, traces: Sequence[AssembledTrace]) -> Sequence[AssembledTrace]:
        return traces

    def hands_on(self, trace: AssembledTrace, session_of: Callable[[], str]) -> bool:
        return False

    def take_partitions(self, partitions: Collection[int]) -> None:
        """Do nothing: this process has all sessions already."""

    def give_up_partitions(self, partitions: Collection[int]) -> None:
        """Do nothing: this process keeps all sessions."""

    def superseded(self) -> None:
        """Do nothing: no other process can take over."""
