"""Reliability over runs as gauges: every defined figure of an agent's version, and the runs that they rest on."""

from collections.abc import Iterable

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from agenteval_collector.emit.labels import OTHER, IdentityLabels
from agenteval_collector.emit.ports import Reliability
from agenteval_collector.model.runs import VersionFigures
from otel_agenteval import semconv


class ReliabilityInstruments:
    """The gauges of reliability, registered on construction."""

    def __init__(self, meter: Meter, labels: IdentityLabels, reliability: Reliability) -> None:
        self._labels = labels
        self._reliability = reliability
        meter.create_observable_gauge(
            "agenteval.reliability",
            [self._observe_figures],
            unit="{score}",
            description="Published figures of reliability over runs, from 0 (bad) to 1 (good).",
        )
        meter.create_observable_gauge(
            "agenteval.reliability.runs",
            [self._observe_runs],
            unit="{run}",
            description="Runs that the figures of reliability rest on.",
        )

    def _observe_figures(self, _: CallbackOptions) -> Iterable[Observation]:
        for whose, version in self._shown():
            for name, value in version.figures.items():
                yield Observation(value, {**whose, semconv.AGENTEVAL_RELIABILITY_METRIC: name})

    def _observe_runs(self, _: CallbackOptions) -> Iterable[Observation]:
        for whose, version in self._shown():
            yield Observation(version.runs, whose)

    def _shown(self) -> Iterable[tuple[dict[str, str], VersionFigures]]:
        """Yield the figures with their labels. Those without labels of their own are left out: figures of different
        agents must not share one."""
        for version in self._reliability.figures():
            agent, name = self._labels.agent_version(version.agent, version.version)
            if OTHER in (agent, name):
                continue
            labels = {semconv.GEN_AI_AGENT_NAME: agent, semconv.SERVICE_VERSION: name}
            yield {key: value for key, value in labels.items() if value is not None}, version
