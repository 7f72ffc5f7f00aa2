"""The ports of the figures: to the stored runs, the stored sessions of versions, and the judged traces."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from agenteval_collector.model.pass_rates import JudgedScore, Rated, RatedChange
from agenteval_collector.model.regressions import SeenVersion, VersionTrials
from agenteval_collector.model.runs import AgentVersion, RunKey, RunReport, RunTrace
from otel_agenteval.outcome import Evaluation


class RunReader(Protocol):
    """Reads the stored runs as they are at one moment."""

    def versions(self) -> list[AgentVersion]:
        """Return the agents and versions that traces of runs name. Those with the newest trace come first."""

    def newest(self, version: AgentVersion) -> Iterator[list[RunKey]]:
        """Yield the runs of a version, some at a time. The run that began last comes first."""

    def traces(self, names: Sequence[RunKey]) -> dict[RunKey, list[RunTrace]]:
        """Return the traces of runs, by run."""

    def traces_in_any_condition(self, reports: Sequence[RunReport]) -> dict[tuple[str, str], list[RunTrace]]:
        """Return the traces of the reported runs in any condition, by task id and run id."""

    def reports(self, names: Sequence[RunKey]) -> dict[RunKey, list[RunReport]]:
        """Return the reports on runs, by run. Those of one run are in order of time."""

    def reports_without_traces(self, newest: int) -> list[RunReport]:
        """Return the reports that fit no trace, of the last `newest` reports.

        A report fits a trace that has the run, agent and version that it names.
        """

    def finalized(self, session_ids: Sequence[str]) -> set[str]:
        """Return those of the sessions that are over."""

    def evaluations(self, trace_ids: Sequence[str], names: Sequence[str]) -> list[Evaluation]:
        """Return the outcomes of the evaluators `names` on traces, the oldest first."""


class RunStore(Protocol):
    """The stored runs. Thread-safe. Each method may raise Unavailable."""

    def revision(self) -> int:
        """Return a number that changes whenever the runs or their reports may have changed."""

    def snapshot(self) -> AbstractContextManager[RunReader]:
        """Read the runs as they are at one moment."""


class VersionReader(Protocol):
    """Reads the stored sessions of versions as they are at one moment."""

    def versions(self) -> list[SeenVersion]:
        """Return the versions that traces name, by agent. The version with the oldest first trace comes first."""

    def trials(self, version: SeenVersion, *, until: int | None, most: int) -> VersionTrials:
        """Return the last `most` sessions of a version that began before `until` (ns).

        Without `until`, return its first `most` sessions.
        """


class VersionStore(Protocol):
    """The stored sessions of versions. Thread-safe. Each method may raise Unavailable."""

    def snapshot(self) -> AbstractContextManager[VersionReader]:
        """Read the sessions as they are at one moment."""


class JudgedSnapshot(Protocol):
    """The judged traces of the random part, as they are at one moment."""

    def rated(self) -> Sequence[RatedChange]:
        """Return everything that has a rate of passing. The one with the newest judgement is first."""
        ...

    def judged(self, rated: Rated) -> Sequence[JudgedScore]:
        """Return the newest judged traces, the newest first."""
        ...

    def unscored(self, rated: Rated) -> int:
        """Count the traces drawn at random in the same time that the judge could not score.

        Either its answer failed, or the budget was used up.
        """
        ...
