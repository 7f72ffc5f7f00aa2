"""The evidence that a version is worse than the one before it, as a gauge."""

from collections.abc import Iterable, Mapping

from opentelemetry.metrics import Meter

from agenteval_collector.emit.gauges import show_level
from agenteval_collector.emit.labels import OTHER, Identity, IdentityLabels, present
from agenteval_collector.emit.ports import Regressions
from otel_agenteval import semconv


def show_regressions(meter: Meter, labels: IdentityLabels, regressions: Regressions) -> None:
    """Register the gauge. To be called once."""

    def shown() -> Iterable[tuple[float, Mapping[str, str]]]:
        """Yield the evidence with its labels, but of versions without labels of their own."""
        for each in regressions.figures():
            agent, version = labels.agent_version(each.agent, each.version)
            if OTHER not in (agent, version):
                about = {semconv.GEN_AI_EVALUATION_NAME: each.evaluator, semconv.AGENTEVAL_FINDING_KIND: each.kind}
                yield each.evidence, {**Identity(agent, None, version).attributes, **present(about)}

    show_level(
        meter,
        "agenteval.regression",
        "{evidence}",
        "Evidence that a version of an agent is worse than the one before it: 20 is reached by chance in 5 % at most.",
        shown,
    )
