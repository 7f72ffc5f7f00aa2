"""Reliability over runs as gauges: every defined figure of an agent's version, and the runs that they rest on."""

from collections.abc import Iterable

from opentelemetry.metrics import Meter

from agenteval_collector.emit.gauges import show_level
from agenteval_collector.emit.labels import OTHER, Identity, IdentityLabels
from agenteval_collector.emit.ports import Reliability
from agenteval_collector.model.runs import VersionFigures
from otel_agenteval import semconv


def show_reliability(meter: Meter, labels: IdentityLabels, reliability: Reliability) -> None:
    """Register the gauges of reliability. To be called once."""

    def shown() -> Iterable[tuple[dict[str, str], VersionFigures]]:
        """Yield the figures with their labels. Those without labels of their own are left out: figures of different
        agents must not share one."""
        for version in reliability.figures():
            agent, name = labels.agent_version(version.agent, version.version)
            if OTHER not in (agent, name):
                yield Identity(agent, None, name).attributes, version

    show_level(
        meter,
        "agenteval.reliability",
        "{score}",
        "Published figures of reliability over runs, from 0 (bad) to 1 (good).",
        lambda: (
            (value, {**whose, semconv.AGENTEVAL_RELIABILITY_METRIC: name})
            for whose, version in shown()
            for name, value in version.figures.items()
        ),
    )
    show_level(
        meter,
        "agenteval.reliability.runs",
        "{run}",
        "Runs that the figures of reliability rest on.",
        lambda: ((version.runs, whose) for whose, version in shown()),
    )
