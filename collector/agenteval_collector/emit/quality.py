"""Rates of passing as gauges: the estimate, and the bounds of its interval where it has one."""

from collections.abc import Iterable

from opentelemetry.metrics import Meter

from agenteval_collector.emit.gauges import show_level
from agenteval_collector.emit.labels import OTHER, Identity, IdentityLabels
from agenteval_collector.emit.ports import PassRates
from otel_agenteval import semconv
from otel_agenteval.metrics import PassRate

_NAME = "agenteval.pass_rate"


def show_pass_rates(meter: Meter, labels: IdentityLabels, source: PassRates) -> None:
    """Register the gauges of rates of passing. To be called once."""

    rates: list[tuple[dict[str, str], PassRate]] = []

    def read() -> Iterable[tuple[dict[str, str], PassRate]]:
        """Yield the rates with their labels. Agents and versions without labels of their own are left out: rates of
        different ones must not share one."""
        for each in source.newest():
            agent, version = labels.agent_version(each.rated.agent, each.rated.version)
            if OTHER not in (agent, version):
                evaluator = {
                    semconv.GEN_AI_EVALUATION_NAME: each.rated.name,
                    semconv.AGENTEVAL_ESTIMATOR: each.rate.estimator,
                }
                yield {**Identity(agent, None, version).attributes, **evaluator}, each.rate

    def estimates() -> Iterable[tuple[float, dict[str, str]]]:
        # Shown first: the bounds are those of the same moment, and cost nothing more.
        rates[:] = read()
        return [(rate.estimate, whose) for whose, rate in rates if rate.estimate is not None]

    def bound(at: int) -> Iterable[tuple[float, dict[str, str]]]:
        return [(rate.interval[at], whose) for whose, rate in rates if rate.interval is not None]

    show_level(
        meter,
        _NAME,
        "{score}",
        "The rate at which traces pass, corrected by labels where there are enough.",
        estimates,
    )
    show_level(meter, f"{_NAME}.low", "{score}", "The lower bound of the 95 % interval.", lambda: bound(0))
    show_level(meter, f"{_NAME}.high", "{score}", "The upper bound of the 95 % interval.", lambda: bound(1))
