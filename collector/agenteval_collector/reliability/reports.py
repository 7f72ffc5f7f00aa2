"""Reliability reports for the runs of every agent's version, computed by whoever asks, and only when runs changed."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol, TypeAlias, cast, get_args

from agenteval_collector.model.cursors import decode_cursor, encode_cursor, foreign_cursor
from agenteval_collector.model.documents import Document, Page
from agenteval_collector.model.runs import StoredRun, StrayReport
from agenteval_collector.reliability.documents import comparison_document, reliability_document
from agenteval_collector.reliability.runs import AssembledRun, assemble
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import InvalidRequest, NotFound
from otel_agenteval.metrics import ReliabilityReport, Run, compare_reliability, reliability_report
from otel_agenteval.metrics.consistency import Variant

DEFAULT_VARIANT: Variant = "page"

AgentVersion: TypeAlias = tuple[str | None, str | None]
"""An agent's name and its service.version."""

LIVE_VERSIONS = 3
"""Versions of an agent that gauges show, those with the newest traces."""


SCRAPE_BUDGET = 1.0
"""Seconds that a scrape may spend on reading runs again."""


class RunSource(Protocol):
    """What is known of runs. Thread-safe."""

    @property
    def revision(self) -> Callable[[], int]:
        """Gives another number than before when anything may have changed."""
        ...

    def versions(self) -> Sequence[AgentVersion]:
        """The agents and versions that have runs, those with the newest trace first."""
        ...

    def runs(self, version: AgentVersion) -> Sequence[StoredRun]:
        """The runs of one agent's version that count, the one that began last first."""
        ...

    def stray_reports(self) -> Sequence[StrayReport]:
        """Reports that no run belongs to, of the newest."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRuns:
    """The runs in the window of one agent's version, and how many cannot count for which reason."""

    agent: str | None
    version: str | None
    runs: tuple[AssembledRun, ...]
    left_out: dict[str, int]

    @property
    def any(self) -> bool:
        """Whether there is a run, counting or not."""
        return bool(self.runs or self.left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFigures:
    """Published figures of one agent's version, those that are defined."""

    agent: str | None
    version: str | None
    runs: int
    figures: dict[str, float]


@dataclass(slots=True)
class _Known:
    """The runs of a version as they were at a revision, and the reports on them."""

    revision: int
    runs: VersionRuns
    reports: dict[Variant, ReliabilityReport] = field(default_factory=dict)


class ReliabilityReports:
    """Thread-safe. Runs are read again when the source changed, reports computed again when their runs did."""

    def __init__(self, source: RunSource, window: int, clock: Clock) -> None:
        self._source = source
        self._window = window
        self._clock = clock
        self._known: dict[AgentVersion, _Known] = {}
        # Two readers must not compute the same report side by side; nobody but readers waits for it.
        self._lock = Lock()

    def items(
        self, *, agent: str | None = None, version: str | None = None, variant: str | None = None
    ) -> list[Document]:
        """The documents of `/api/v1/reliability`, all. Raises InvalidRequest for an unknown variant."""
        return self.page(agent=agent, version=version, variant=variant, limit=None).items

    def page(
        self,
        *,
        agent: str | None = None,
        version: str | None = None,
        variant: str | None = None,
        limit: int | None,
        cursor: str | None = None,
    ) -> Page:
        """At most `limit` of them. Only their runs are read.

        Raises InvalidRequest for an unknown variant, and for a cursor that is none of ours.
        """
        chosen = checked_variant(variant)
        items: list[Document] = []
        last: AgentVersion | None = None
        with self._lock:
            versions = self._source.versions()
            strays = _by_version(self._source.stray_reports(), versions)
            for each in _behind(list(dict.fromkeys([*versions, *strays])), cursor):
                if agent not in (None, each[0]) or version not in (None, each[1]):
                    continue
                [known] = self._current([each])
                if not (known.runs.any or each in strays):
                    continue
                if len(items) == limit and last is not None:
                    return Page(items=items, next_cursor=encode_cursor(last))
                report = _report(known, chosen)
                items.append(reliability_document(known.runs, report, window=self._window, strays=strays.get(each, {})))
                last = each
        return Page(items=items, next_cursor=None)

    def comparison(self, before: str, after: str, *, agent: str | None = None, variant: str | None = None) -> Document:
        """How version `after` of an agent does beside version `before`.

        Raises NotFound where no agent has runs of both, InvalidRequest where it is not clear which agent is meant.
        """
        chosen = checked_variant(variant)
        found: dict[str | None, dict[str | None, list[Run]]] = {}
        with self._lock:
            wanted = [
                each for each in self._source.versions() if agent in (None, each[0]) and each[1] in (before, after)
            ]
            for known in self._current(wanted):
                if known.runs.runs:
                    found.setdefault(known.runs.agent, {})[known.runs.version] = [each.run for each in known.runs.runs]
        candidates = [name for name, runs in found.items() if runs.keys() >= {before, after}]
        if len(candidates) > 1:
            names = ", ".join(repr(name) for name in candidates[:10])
            raise InvalidRequest(f"several agents have these versions: {names}; give agent")
        if not candidates:
            raise NotFound(_missing(before, after, {version for runs in found.values() for version in runs}))
        runs = found[candidates[0]]
        compared = compare_reliability(runs[before], runs[after], chosen)
        return comparison_document(candidates[0], before, after, compared)

    def figures(self) -> list[VersionFigures]:
        """What gauges show: of every agent the `LIVE_VERSIONS` with the newest traces.

        Versions that changed are read again for `SCRAPE_BUDGET` seconds, those first that waited longest; the others
        show what they showed before, or nothing yet, until the next call.
        """
        with self._lock:
            live = _live(self._source.versions())
            self._known = {version: known for version, known in self._known.items() if version in live}
            until = self._clock.monotonic() + SCRAPE_BUDGET
            for version in sorted(live, key=self._revision_of):
                if self._clock.monotonic() < until:
                    self._current([version])
            current = [known for version in live if (known := self._known.get(version)) and known.runs.any]
            return [_figures(known.runs, _report(known, DEFAULT_VARIANT)) for known in current]

    def _revision_of(self, version: AgentVersion) -> int:
        known = self._known.get(version)
        return -1 if known is None else known.revision

    def _current(self, versions: Sequence[AgentVersion]) -> list[_Known]:
        """The runs of `versions` as they are now."""
        found = []
        for version in versions:
            known = self._known.get(version)
            revision = self._source.revision()
            if known is None or known.revision != revision:
                runs = _version_runs(version, self._source.runs(version))
                if known is not None and known.runs == runs:
                    known.revision = revision
                else:
                    known = self._known[version] = _Known(revision, runs)
            found.append(known)
        return found


def _behind(versions: Sequence[AgentVersion], cursor: str | None) -> Sequence[AgentVersion]:
    if cursor is None:
        return versions
    place = decode_cursor(cursor)
    if place not in versions:
        raise foreign_cursor(cursor)
    return versions[versions.index(place) + 1 :]


def _by_version(strays: Sequence[StrayReport], versions: Sequence[AgentVersion]) -> dict[AgentVersion, dict[str, int]]:
    """How many reports no run belongs to, by reason, and by the agent and version that they can only be about, or
    else by those that they name."""
    found: dict[AgentVersion, dict[str, int]] = {}
    for stray in strays:
        named = stray.report.agent, stray.report.service_version
        fitting = [each for each in versions if named[0] in (None, each[0]) and named[1] in (None, each[1])]
        whose = stray.whose or (fitting[0] if len(fitting) == 1 else named)
        reasons = found.setdefault(whose, {})
        reasons[stray.reason.value] = reasons.get(stray.reason.value, 0) + 1
    return found


def _missing(before: str, after: str, known: Collection[str | None]) -> str:
    for each in (before, after):
        if each not in known:
            return f"a run of version {each[:200]!r} is not known to this collector"
    return f"no agent has runs of both {before[:200]!r} and {after[:200]!r}"


def _live(versions: Sequence[AgentVersion]) -> list[AgentVersion]:
    seen: Counter[str | None] = Counter()
    live = []
    for version in versions:
        seen[version[0]] += 1
        if seen[version[0]] <= LIVE_VERSIONS:
            live.append(version)
    return live


def _report(known: _Known, variant: Variant) -> ReliabilityReport:
    if variant not in known.reports:
        known.reports[variant] = reliability_report([each.run for each in known.runs.runs], variant)
    return known.reports[variant]


def _figures(runs: VersionRuns, report: ReliabilityReport) -> VersionFigures:
    defined = {name: value for name, value in report.metrics.items() if value is not None}
    return VersionFigures(agent=runs.agent, version=runs.version, runs=len(runs.runs), figures=defined)


def checked_variant(text: str | None) -> Variant:
    """The variant that `text` names; None: the published page's. Raises InvalidRequest."""
    if text is None:
        return DEFAULT_VARIANT
    if text not in get_args(Variant):
        raise InvalidRequest(f"variant is {text[:64]!r}, not one of {', '.join(get_args(Variant))}")
    return cast(Variant, text)


def _version_runs(version: AgentVersion, stored: Sequence[StoredRun]) -> VersionRuns:
    found = [assemble(each) for each in stored]
    return VersionRuns(
        agent=version[0],
        version=version[1],
        runs=tuple(each for each in found if isinstance(each, AssembledRun)),
        left_out=dict(Counter(each for each in found if isinstance(each, str))),
    )
