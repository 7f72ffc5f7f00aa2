"""Loops as an OpenTelemetry counter."""

from collections.abc import Sequence

from opentelemetry.metrics import Meter

from agenteval_collector.emit.labels import IdentityLabels
from agenteval_collector.pipeline import FoundVerdict
from otel_agenteval import semconv


class LoopInstruments:
    """Counts alarms, each verdict once; what is only to be observed is not counted."""

    def __init__(self, meter: Meter, labels: IdentityLabels) -> None:
        self._labels = labels
        self._loops = meter.create_counter(
            "agenteval.loops", unit="{loop}", description="Loops that agents were found in."
        )

    def tell(self, verdicts: Sequence[FoundVerdict]) -> None:
        for found in verdicts:
            if not found.verdict.is_alarm:
                continue
            agent, service = self._labels.pair(found.agent, found.service)
            attributes = {
                semconv.AGENTEVAL_LOOP_KIND: found.verdict.kind,
                semconv.GEN_AI_AGENT_NAME: agent,
                semconv.SERVICE_NAME: service,
            }
            self._loops.add(1, {name: value for name, value in attributes.items() if value is not None})
