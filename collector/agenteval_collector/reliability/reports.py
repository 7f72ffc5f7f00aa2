"""Reliability reports for the runs of every agent's version, computed by whoever asks, and only when runs changed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol, TypeAlias, cast, get_args

from agenteval_collector.errors import InvalidRequest, NotFound
from agenteval_collector.pipeline import Document
from agenteval_collector.records import StoredRun
from agenteval_collector.reliability.documents import comparison_document, reliability_document
from agenteval_collector.reliability.runs import AssembledRun, assemble
from otel_agenteval.metrics import ReliabilityReport, compare_reliability, reliability_report
from otel_agenteval.metrics.consistency import Variant

DEFAULT_VARIANT: Variant = "page"

Group: TypeAlias = tuple[str | None, str | None]
"""An agent and its version."""


class RunSource(Protocol):
    """What is known of runs. Thread-safe."""

    def revision(self) -> int:
        """Another number than before when anything may have changed."""
        ...

    def runs(self) -> Sequence[StoredRun]:
        """The runs that count, those of the agent and version with the newest run first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRuns:
    """The runs in the window of one agent's version, and how many cannot count for which reason."""

    agent: str | None
    version: str | None
    runs: tuple[AssembledRun, ...]
    left_out: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFigures:
    """Published figures of one agent's version, those that are defined."""

    agent: str | None
    version: str | None
    runs: int
    figures: dict[str, float]


@dataclass(slots=True)
class _Known:
    runs: VersionRuns
    reports: dict[Variant, ReliabilityReport] = field(default_factory=dict)


class ReliabilityReports:
    """Thread-safe. Runs are read again when the source changed, reports computed again when their runs did."""

    def __init__(self, source: RunSource, window: int) -> None:
        self._source = source
        self._window = window
        self._revision: int | None = None
        self._known: dict[Group, _Known] = {}
        # Two readers must not compute the same report side by side; nobody but readers waits for it.
        self._lock = Lock()

    def items(
        self, *, agent: str | None = None, version: str | None = None, variant: str | None = None
    ) -> list[Document]:
        """The documents of `/api/v1/reliability`. Raises InvalidRequest for an unknown variant."""
        chosen = checked_variant(variant)
        with self._lock:
            return [
                reliability_document(known.runs, self._report(known, chosen), window=self._window)
                for known in self._current()
                if agent in (None, known.runs.agent) and version in (None, known.runs.version)
            ]

    def comparison(self, before: str, after: str, *, agent: str | None = None, variant: str | None = None) -> Document:
        """How version `after` of an agent does beside version `before`.

        Raises NotFound where one of them has no runs, InvalidRequest where it is not clear which agent is meant.
        """
        chosen = checked_variant(variant)
        with self._lock:
            known = [each.runs for each in self._current() if agent in (None, each.runs.agent)]
        agents = list(dict.fromkeys(each.agent for each in known if each.version in (before, after)))
        if len(agents) > 1:
            names = ", ".join(repr(name) for name in agents[:10])
            raise InvalidRequest(f"several agents have these versions: {names}; give agent")
        versions = {each.version: each for each in known}
        for wanted in (before, after):
            if wanted not in versions:
                raise NotFound(f"a run of version {wanted[:200]!r} is not known to this collector")
        comparison = compare_reliability(
            [each.run for each in versions[before].runs], [each.run for each in versions[after].runs], chosen
        )
        return comparison_document(agents[0], before, after, comparison)

    def figures(self) -> Iterator[VersionFigures]:
        """What gauges show, those of the version with the newest run first."""
        with self._lock:
            current = [(known.runs, self._report(known, DEFAULT_VARIANT)) for known in self._current()]
        for runs, report in current:
            defined = {name: value for name, value in report.metrics.items() if value is not None}
            yield VersionFigures(agent=runs.agent, version=runs.version, runs=len(runs.runs), figures=defined)

    def _current(self) -> list[_Known]:
        revision = self._source.revision()
        if revision != self._revision:
            known = {}
            for group, runs in _by_version(self._source.runs()).items():
                before = self._known.get(group)
                known[group] = before if before is not None and before.runs == runs else _Known(runs)
            self._known, self._revision = known, revision
        return list(self._known.values())

    def _report(self, known: _Known, variant: Variant) -> ReliabilityReport:
        if variant not in known.reports:
            known.reports[variant] = reliability_report([each.run for each in known.runs.runs], variant)
        return known.reports[variant]


def checked_variant(text: str | None) -> Variant:
    """The variant that `text` names; None: the published page's. Raises InvalidRequest."""
    if text is None:
        return DEFAULT_VARIANT
    if text not in get_args(Variant):
        raise InvalidRequest(f"variant is {text[:64]!r}, not one of {', '.join(get_args(Variant))}")
    return cast(Variant, text)


def _by_version(stored: Sequence[StoredRun]) -> dict[Group, VersionRuns]:
    groups: dict[Group, list[AssembledRun | str]] = {}
    for each in stored:
        groups.setdefault((each.agent, each.service_version), []).append(assemble(each))
    return {
        (agent, version): VersionRuns(
            agent=agent,
            version=version,
            runs=tuple(each for each in found if isinstance(each, AssembledRun)),
            left_out=dict(Counter(each for each in found if isinstance(each, str))),
        )
        for (agent, version), found in groups.items()
    }
