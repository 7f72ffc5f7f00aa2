"""The ports of live loops: the kept findings, and the rules of the settings."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from agenteval_collector.model.news import News
from otel_agenteval.finding import Finding


class KeptFindings(Protocol):
    """The part of the store that keeps findings."""

    def keep(self, found: Sequence[Finding], recounted: Sequence[Finding]) -> News: ...

    def overdue(self, before: int) -> list[Finding]: ...


Rules: TypeAlias = Callable[[Iterable[Finding]], list[Finding]]
"""Returns findings as the settings want them, without those that are switched off."""
