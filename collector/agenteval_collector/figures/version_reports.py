"""Reliability reports on every version of an agent. The caller's thread computes them if runs have changed."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import cast, get_args

from agenteval_collector.figures.assembled_run import AssembledRun, assemble
from agenteval_collector.figures.counting import CountedRuns
from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.cursors import Page, behind, encode_cursor
from agenteval_collector.model.runs import LIVE_VERSIONS, AgentVersion, StoredRun, UnmatchedReport, VersionFigures
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import InvalidRequest, NotFound
from otel_agenteval import metrics
from otel_agenteval.metrics.comparison import PRIMARY, check_primary
from otel_agenteval.metrics.consistency import Variant

DEFAULT_VARIANT: Variant = "page"

OLD_KEPT = 20
"""The number of other versions whose runs are kept until the next look for the gauges, as somebody may ask again."""
SCRAPE_BUDGET = 1.0
"""Seconds after which one look for the gauges reads no further version again."""
SHARE = 0.05
"""The largest share of the time that such looks take. Many runs take long to read, and change all the time."""
PATIENCE = 2.0
"""Seconds that a scrape waits for such a look. A scrape that took too long would lose all other series, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRuns:
    """The runs in the window of one agent's version, and by reason the numbers of runs that cannot count."""

    whose: AgentVersion
    runs: tuple[AssembledRun, ...]
    left_out: dict[str, int]

    @property
    def any(self) -> bool:
        """True if there is a run, whether it counts or not."""
        return bool(self.runs or self.left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionReport:
    """The report on the newest `window` runs of one agent's version.

    `unmatched` has, by reason, the numbers of run reports that belong to no run.
    """

    runs: VersionRuns
    report: metrics.ReliabilityReport
    window: int
    unmatched: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionComparison:
    """A comparison of two versions of an agent."""

    agent: str | None
    service: str | None
    before: str
    after: str
    comparison: metrics.ReliabilityComparison


@dataclass(slots=True)
class _KnownVersion:
    """The runs of a version as they were at a revision of the store, and the reports on them."""

    revision: int
    runs: VersionRuns
    reports: dict[Variant, metrics.ReliabilityReport] = field(default_factory=dict)


class ReliabilityReports:
    """Makes reports, and computes one again only if its runs have changed. Thread-safe."""

    def __init__(self, source: CountedRuns, window: int, clock: Clock) -> None:
        self._source = source
        self._window = window
        self._clock = clock
        self._known: dict[AgentVersion, _KnownVersion] = {}
        # Two readers must not compute the same report at the same time. Only readers wait for this lock.
        self._lock = Lock()
        self._looking = ThreadPoolExecutor(1, "agenteval-figures")
        self._look: Future[None] | None = None
        self._next_look = 0.0
        self._figures: list[VersionFigures] = []

    def page(
        self,
        *,
        agent: str | None = None,
        service: str | None = None,
        version: str | None = None,
        variant: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[VersionReport]:
        """Return at most `limit` reports, or all without one. Only their runs are read.

        Raises InvalidRequest for an unknown variant and for a foreign cursor.
        """
        chosen = checked_variant(variant)
        items: list[VersionReport] = []
        last: AgentVersion | None = None
        with self._lock:
            versions = self._versions()
            unmatched = _by_version(self._source.unmatched_reports(), versions)
            for key in behind(list(dict.fromkeys([*versions, *unmatched])), cursor, tuple):
                asked = zip((agent, service, version), key, strict=True)
                if not all(wanted in (None, own) for wanted, own in asked):
                    continue
                report = self._current(key)
                if not (report.runs.any or key in unmatched):
                    continue
                if len(items) == limit and last is not None:
                    return Page(items=items, next_cursor=encode_cursor(last))
                items.append(
                    VersionReport(
                        runs=report.runs,
                        report=_report(report, chosen),
                        window=self._window,
                        unmatched=unmatched.get(key, {}),
                    )
                )
                last = key
        return Page(items=items, next_cursor=None)

    def comparison(
        self,
        before: str,
        after: str,
        *,
        agent: str | None = None,
        service: str | None = None,
        variant: str | None = None,
        primary: str | None = None,
    ) -> VersionComparison:
        """Compare version `after` of an agent with version `before`. The figure `primary` decides.

        Raises NotFound if no agent has runs of both. Raises InvalidRequest if it is not clear which agent or which
        figure is meant.
        """
        chosen, deciding = checked_variant(variant), _checked_primary(primary)
        runs_by_agent: dict[AgentKey, dict[str | None, list[metrics.Run]]] = {}
        with self._lock:
            wanted = [
                version
                for version in self._versions()
                if agent in (None, version.agent)
                and service in (None, version.service)
                and version.version in (before, after)
            ]
            for report in map(self._current, wanted):
                if report.runs.runs:
                    whose = report.runs.whose
                    runs_by_agent.setdefault(whose.key, {})[whose.version] = [key.run for key in report.runs.runs]
        candidates = [name for name, runs in runs_by_agent.items() if runs.keys() >= {before, after}]
        if len(candidates) > 1:
            names = ", ".join(f"{name.agent!r} in {name.service!r}" for name in candidates[:10])
            raise InvalidRequest(f"several agents have these versions: {names}; give agent and service")
        if not candidates:
            raise NotFound(_missing(before, after, {version for runs in runs_by_agent.values() for version in runs}))
        [found] = candidates
        runs = runs_by_agent[found]
        compared = metrics.compare_reliability(runs[before], runs[after], chosen, primary=deciding)
        return VersionComparison(**found._asdict(), before=before, after=after, comparison=compared)

    def figures(self) -> list[VersionFigures]:
        """Return the figures that gauges show, of the `LIVE_VERSIONS` of each agent with the newest traces.

        Changed versions are read again on a separate thread for `SCRAPE_BUDGET` seconds. The versions that waited
        longest come first. Reading takes `SHARE` of the time at most, and the caller waits `PATIENCE` at most. A
        version that is not read by then shows its figures from before, or none yet.
        """
        if self._look is None or (self._look.done() and self._clock.monotonic() >= self._next_look):
            self._look = self._looking.submit(self._look_again)
        with suppress(TimeoutError):
            self._look.result(PATIENCE)
        return self._figures

    def _look_again(self) -> None:
        with self._lock:
            begun = self._clock.monotonic()
            live = _live(self._source.versions())
            self._known = {version: value for version, value in self._known.items() if version in live}
            until = begun + SCRAPE_BUDGET
            known_at = {version: value.revision for version, value in self._known.items()}
            # The version that was read at the oldest revision comes first, so that each gets its turn.
            for version in sorted(live, key=lambda version: known_at.get(version, -1)):
                if self._clock.monotonic() < until:
                    self._current(version)
            current = [
                version_entry
                for version in live
                if (version_entry := self._known.get(version)) and version_entry.runs.any
            ]
            figures = [_figures(entry.runs, _report(entry, DEFAULT_VARIANT)) for entry in current]
            ended = self._clock.monotonic()
            self._next_look = ended + (ended - begun) * (1 / SHARE - 1)
            self._figures = figures

    def _versions(self) -> list[AgentVersion]:
        """Return all versions with runs. Forget the old versions if more than `OLD_KEPT` are known: where nobody
        reads gauges, nothing else would."""
        versions = self._source.versions()
        old = self._known.keys() - set(_live(versions))
        if len(old) > OLD_KEPT:
            for version in old:
                del self._known[version]
        return versions

    def _current(self, version: AgentVersion) -> _KnownVersion:
        """Return the runs of a version as they are now. Its reports are kept if the runs have not changed."""
        entry = self._known.get(version)
        revision = self._source.revision()
        if entry is None or entry.revision != revision:
            runs = _version_runs(version, self._source.runs(version))
            if entry is not None and entry.runs == runs:
                entry.revision = revision
            else:
                entry = self._known[version] = _KnownVersion(revision, runs)
        return entry


def _by_version(
    unmatched: Sequence[UnmatchedReport], versions: Sequence[AgentVersion]
) -> dict[AgentVersion, Counter[str]]:
    """Return the numbers of run reports that belong to no run, by agent and version, and by reason.

    A report counts for the only agent and version that it can be about, else for those that it names.
    """
    counts: dict[AgentVersion, Counter[str]] = {}
    for key in unmatched:
        named = key.report.agent, key.report.service_version
        fitting = [
            version for version in versions if named[0] in (None, version.agent) and named[1] in (None, version.version)
        ]
        whose = key.whose or (fitting[0] if len(fitting) == 1 else AgentVersion(named[0], None, named[1]))
        counts.setdefault(whose, Counter())[key.reason.value] += 1
    return counts


def _missing(before: str, after: str, versions: Collection[str | None]) -> str:
    for key in (before, after):
        if key not in versions:
            return f"a run of version {key[:200]!r} is not known to this collector"
    return f"no agent has runs of both {before[:200]!r} and {after[:200]!r}"


def _live(versions: Sequence[AgentVersion]) -> list[AgentVersion]:
    counts: Counter[AgentKey] = Counter()
    live = []
    for version in versions:
        counts[version.key] += 1
        if counts[version.key] <= LIVE_VERSIONS:
            live.append(version)
    return live


def _report(entry: _KnownVersion, variant: Variant) -> metrics.ReliabilityReport:
    if variant not in entry.reports:
        entry.reports[variant] = metrics.reliability_report([key.run for key in entry.runs.runs], variant)
    return entry.reports[variant]


def _figures(runs: VersionRuns, report: metrics.ReliabilityReport) -> VersionFigures:
    defined = {name: value for name, value in report.metrics.items() if value is not None}
    return VersionFigures(**runs.whose._asdict(), runs=len(runs.runs), figures=defined)


def checked_variant(text: str | None) -> Variant:
    """Return the variant that `text` names. Without a text it is `DEFAULT_VARIANT`. Raises InvalidRequest."""
    if text is None:
        return DEFAULT_VARIANT
    if text not in get_args(Variant):
        raise InvalidRequest(f"variant is {text[:64]!r}, not one of {', '.join(get_args(Variant))}")
    return cast(Variant, text)


def _checked_primary(name: str | None) -> str:
    if name is None:
        return PRIMARY
    try:
        check_primary(name)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error
    return name


def _version_runs(version: AgentVersion, stored: Sequence[StoredRun]) -> VersionRuns:
    runs = [assemble(key) for key in stored]
    return VersionRuns(
        whose=version,
        runs=tuple(key for key in runs if isinstance(key, AssembledRun)),
        left_out=dict(Counter(key for key in runs if isinstance(key, str))),
    )
