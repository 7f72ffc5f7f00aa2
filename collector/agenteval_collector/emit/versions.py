"""Gauges of agents' versions: pass rates, reliability over runs, and evidence of a regression."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from agenteval_collector.emit.attributes import BoundedIdentities, present
from agenteval_collector.emit.meter import Meter, Observations
from agenteval_collector.model.pass_rates import Rated, VersionRate
from agenteval_collector.model.regressions import Regression
from agenteval_collector.model.runs import VersionFigures
from otel_agenteval import semconv
from otel_agenteval.metrics.pass_rate import PassRate

Version = TypeVar("Version", VersionFigures, Regression, Rated)


class VersionGauges:
    """Gauges of agents' versions. An agent beyond the cardinality limit is left out: figures of different agents must
    not share a series.

    The service is an attribute only where services share the name of an agent. Each source is read at each scrape and
    push, on the caller's thread, for the newest few versions of each agent. Each `observe_*` is called once.
    """

    def __init__(self, meter: Meter, identities: BoundedIdentities) -> None:
        self._meter = meter
        self._identities = identities

    def observe_reliability(self, read: Callable[[], Iterable[VersionFigures]]) -> None:
        """Show every defined figure over runs, and the number of runs behind it."""

        self._meter.observable(
            "agenteval.reliability",
            "{score}",
            "Published figures of reliability over runs, from 0 (bad) to 1 (good).",
            lambda: (
                (value, {**whose, semconv.AGENTEVAL_RELIABILITY_METRIC: name})
                for whose, version in self._named(read())
                for name, value in version.figures.items()
            ),
        )
        self._meter.observable(
            "agenteval.reliability.runs",
            "{run}",
            "Runs that the figures of reliability rest on.",
            lambda: ((version.runs, whose) for whose, version in self._named(read())),
        )

    def observe_regressions(self, read: Callable[[], Iterable[Regression]]) -> None:
        """Show the evidence that a version is worse than the one before it."""

        def shown() -> Observations:
            for whose, version in self._named(read()):
                about = {
                    semconv.GEN_AI_EVALUATION_NAME: version.evaluator,
                    semconv.AGENTEVAL_FINDING_KIND: version.kind,
                }
                yield version.evidence, {**whose, **present(about)}

        self._meter.observable(
            "agenteval.regression",
            "{evidence}",
            "Evidence that a version of an agent is worse than the one before it. Where nothing got worse, any series "
            "of a version ever reaches 20 in 5 % of the versions at most.",
            shown,
        )

    def _named(self, versions: Iterable[Version]) -> Iterator[tuple[dict[str, str], Version]]:
        """Yield each item whose version has series of its own, together with the attributes of that version."""
        versions = list(versions)
        services = defaultdict[str | None, set[str | None]](set)
        for version in versions:
            services[version.agent].add(version.service)
        for version in versions:
            service = version.service if len(services[version.agent]) > 1 else None
            if (whose := self._identities.agent_version(version.agent, service, version.version)) is not None:
                yield whose, version

    def observe_pass_rates(self, read: Callable[[], Iterable[VersionRate]]) -> None:
        """Show pass rates: the estimates, and the bounds of their intervals."""
        rates: list[tuple[dict[str, str], PassRate]] = []

        def labelled() -> Iterable[tuple[dict[str, str], PassRate]]:
            by_version = {version.rated: version.rate for version in read()}
            for whose, rated in self._named(by_version):
                rate = by_version[rated]
                evaluator = {semconv.GEN_AI_EVALUATION_NAME: rated.name, semconv.AGENTEVAL_ESTIMATOR: rate.estimator}
                yield {**whose, **evaluator}, rate

        def estimates() -> Observations:
            # Read first of the three: the bounds then belong to the same moment, and are not computed again.
            rates[:] = labelled()
            return [(rate.estimate, whose) for whose, rate in rates if rate.estimate is not None]

        def bound(at: int) -> Observations:
            return [(rate.interval[at], whose) for whose, rate in rates if rate.interval is not None]

        for name, description, levels in (
            ("", "The rate at which traces pass, corrected by labels where there are enough.", estimates),
            (".low", "The lower bound of the 95 % interval.", lambda: bound(0)),
            (".high", "The upper bound of the 95 % interval.", lambda: bound(1)),
        ):
            self._meter.observable(f"agenteval.pass_rate{name}", "{score}", description, levels)
