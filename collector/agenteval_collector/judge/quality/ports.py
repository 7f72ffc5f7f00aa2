"""The records that rates of passing are computed from."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from agenteval_collector.model.quality import JudgedScore, Rated, RatedChange


class JudgedSnapshot(Protocol):
    """The judged traces of the random part, as they are at one moment."""

    def rated(self) -> Sequence[RatedChange]:
        """Return everything that has a rate of passing, that with the newest judgement first."""
        ...

    def judged(self, rated: Rated) -> Sequence[JudgedScore]:
        """Return the newest judged traces, the newest first."""
        ...

    def unscored(self, rated: Rated) -> int:
        """Count those drawn at random meanwhile that the judge could not score: its answer failed, or the budget."""
        ...


class JudgedRecords(Protocol):
    """The judged traces. Thread-safe; raises Unavailable."""

    def snapshot(self) -> AbstractContextManager[JudgedSnapshot]: ...
