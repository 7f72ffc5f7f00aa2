"""The ports of the composition root: what it asks of those who build a collector, and of the collector's parts."""

from typing import Protocol

from otel_agenteval.model import ExpectedTool, RunIdentity


class ExpectedTools(Protocol):
    """Ground truth of runs."""

    def expected_tools(self, run: RunIdentity | None) -> tuple[ExpectedTool, ...] | None:
        """Return the tools that the run should call; None where nothing is said of it."""


class Healthy(Protocol):
    """A part of the collector that knows whether it can do its work."""

    @property
    def health(self) -> str | None:
        """None while it can, else a sentence that says why not. From any thread."""


class ReplayProgress(Protocol):
    """Hears how far a replay has come."""

    def __call__(self, traces: int, /) -> None:
        """Hear that so many more traces were scored."""
