"""The ports of reliability: the stored runs, and the stored sessions of versions."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from agenteval_collector.model.regressions import SeenVersion, VersionTrials
from agenteval_collector.model.runs import AgentVersion, RunKey, RunReport, RunTrace
from otel_agenteval.outcome import Evaluation


class RunReader(Protocol):
    """Reads the stored runs as they are at one moment."""

    def versions(self) -> list[AgentVersion]:
        """Return the agents and versions that traces of runs name, those with the newest trace first."""

    def newest(self, version: AgentVersion) -> Iterator[list[RunKey]]:
        """Yield the runs of a version by when they began, the newest first, some at a time."""

    def traces(self, names: Sequence[RunKey]) -> dict[RunKey, list[RunTrace]]:
        """Return the traces of runs, by run."""

    def traces_in_any_condition(self, reports: Sequence[RunReport]) -> dict[tuple[str, str], list[RunTrace]]:
        """Return the traces of reported runs under any condition, by task and run."""

    def reports(self, names: Sequence[RunKey]) -> dict[RunKey, list[RunReport]]:
        """Return the reports of runs in order of time, by run."""

    def reports_without_traces(self, newest: int) -> list[RunReport]:
        """Return those of the newest reports of which no trace has the run, agent and version that they name."""

    def finalized(self, session_ids: Sequence[str]) -> set[str]:
        """Return the sessions among these that are over."""

    def evaluations(self, trace_ids: Sequence[str], names: Sequence[str]) -> list[Evaluation]:
        """Return the outcomes of these names on traces, the oldest first."""


class RunStore(Protocol):
    """The stored runs. Thread-safe; raises Unavailable."""

    def revision(self) -> int:
        """Return another number than before where anything may have changed."""

    def snapshot(self) -> AbstractContextManager[RunReader]:
        """Read the runs as they are at one moment."""


class VersionReader(Protocol):
    """Reads the stored sessions of versions as they are at one moment."""

    def versions(self) -> list[SeenVersion]:
        """Return the versions that traces name, by agent, the one with the oldest first trace first."""

    def trials(self, version: SeenVersion, *, until: int | None, most: int) -> VersionTrials:
        """Return the last `most` sessions of a version that began before `until` (ns); without it, its first ones."""


class VersionStore(Protocol):
    """The stored sessions of versions. Thread-safe; raises Unavailable."""

    def snapshot(self) -> AbstractContextManager[VersionReader]:
        """Read the sessions as they are at one moment."""
