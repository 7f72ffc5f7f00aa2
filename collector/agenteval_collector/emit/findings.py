"""Findings as OpenTelemetry instruments: each counted once, and each trace and session by its worst one."""

from collections.abc import Sequence

from opentelemetry.metrics import Counter, Meter

from agenteval_collector.emit.labels import IdentityLabels
from agenteval_collector.model.news import WorstFinding
from otel_agenteval import semconv
from otel_agenteval.detectors import LOOP_KINDS
from otel_agenteval.finding import Finding


class FindingInstruments:
    """Thread-safe."""

    def __init__(self, meter: Meter, labels: IdentityLabels) -> None:
        self._labels = labels
        self._findings = meter.create_counter(
            "agenteval.findings", unit="{finding}", description="What was observed in traces, by kind and severity."
        )
        self._loops = meter.create_counter(
            "agenteval.loops", unit="{loop}", description="Loops that agents were found in, without the observed ones."
        )
        self._last_loop = meter.create_gauge(
            "agenteval.loop.last", unit="s", description="When the newest of them was found, in seconds of Unix time."
        )
        self._traces = meter.create_counter(
            "agenteval.traces", unit="{trace}", description="Complete traces of agents by their worst finding."
        )
        self._sessions = meter.create_counter(
            "agenteval.sessions", unit="{session}", description="Sessions that are over by their worst finding."
        )

    def count(self, findings: Sequence[Finding]) -> None:
        """These findings count now; loops that are only to be observed are no loops here."""
        for each in findings:
            whose = self._identity(each.agent, each.service, each.service_version)
            kind = {semconv.AGENTEVAL_FINDING_KIND: each.kind, semconv.AGENTEVAL_FINDING_SEVERITY: each.severity.value}
            self._findings.add(1, {**kind, **whose})
            if each.kind in LOOP_KINDS and each.is_alarm:
                loop = {semconv.AGENTEVAL_LOOP_KIND: each.kind, **whose}
                self._loops.add(1, loop)
                self._last_loop.set(each.found_at / 1e9, loop)

    def count_traces(self, traces: Sequence[WorstFinding]) -> None:
        """These traces were complete for the first time."""
        self._count_worst(self._traces, traces)

    def count_sessions(self, sessions: Sequence[WorstFinding]) -> None:
        """These sessions were over for the first time."""
        self._count_worst(self._sessions, sessions)

    def _count_worst(self, counter: Counter, subjects: Sequence[WorstFinding]) -> None:
        for each in subjects:
            worst = "none" if each.severity is None else each.severity.value
            whose = self._identity(each.agent, each.service, each.service_version)
            counter.add(1, {semconv.AGENTEVAL_WORST: worst, **whose})

    def _identity(self, agent: str | None, service: str | None, version: str | None) -> dict[str, str]:
        identity = self._labels.identity(agent, service, version)
        attributes = {
            semconv.GEN_AI_AGENT_NAME: identity.agent,
            semconv.SERVICE_NAME: identity.service,
            semconv.SERVICE_VERSION: identity.version,
        }
        return {name: value for name, value in attributes.items() if value is not None}
