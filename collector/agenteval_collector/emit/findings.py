"""Findings as OpenTelemetry instruments. Each finding is counted once, each trace and session by its worst finding."""

from collections.abc import Sequence

from opentelemetry.metrics import Meter

from agenteval_collector.emit.labels import IdentityLabels
from agenteval_collector.emit.totals import Counter, Totals
from agenteval_collector.model.news import News, WorstFinding
from otel_agenteval import semconv
from otel_agenteval.detectors import LOOP_KINDS
from otel_agenteval.finding import Finding


class FindingInstruments:
    """The counters of findings, loops, traces and sessions. Thread-safe."""

    def __init__(self, meter: Meter, totals: Totals, labels: IdentityLabels) -> None:
        self._labels = labels
        self._findings = totals.counter(
            "agenteval.findings",
            unit="{finding}",
            description="What was observed in traces, by kind and severity.",
        )
        self._loops = totals.counter(
            "agenteval.loops",
            unit="{loop}",
            description="Loops that agents were found in, without the observed ones.",
        )
        self._last_loop = meter.create_gauge(
            "agenteval.loop.last", unit="s", description="When the newest of them was found, in seconds of Unix time."
        )
        self._traces = totals.counter(
            "agenteval.traces",
            unit="{trace}",
            description="Complete traces of agents by their worst finding.",
        )
        self._sessions = totals.counter(
            "agenteval.sessions",
            unit="{session}",
            description="Sessions that are over by their worst finding.",
        )

    def take_news(self, news: News) -> None:
        """Count findings, complete traces and sessions that are over; loops that are only observed are no loops."""
        self._count_worst(self._traces, news.traces)
        self._count_worst(self._sessions, news.sessions)
        for each in news.counted:
            whose = self._identity(each)
            kind = {semconv.AGENTEVAL_FINDING_KIND: each.kind, semconv.AGENTEVAL_FINDING_SEVERITY: each.severity.value}
            self._findings.add(1, {**kind, **whose})
            if each.kind in LOOP_KINDS and each.is_alarm:
                loop = {semconv.AGENTEVAL_LOOP_KIND: each.kind, **whose}
                self._loops.add(1, loop)
                self._last_loop.set(each.found_at / 1e9, loop)

    def _count_worst(self, counter: Counter, subjects: Sequence[WorstFinding]) -> None:
        for each in subjects:
            worst = "none" if each.severity is None else each.severity.value
            whose = self._identity(each)
            counter.add(1, {semconv.AGENTEVAL_WORST: worst, **whose})

    def _identity(self, about: Finding | WorstFinding) -> dict[str, str]:
        return self._labels.identity(about.agent, about.service, about.service_version, about.environment).attributes
