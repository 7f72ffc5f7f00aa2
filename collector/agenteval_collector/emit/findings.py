"""Findings as OpenTelemetry instruments. Each finding is counted once, each trace and session by its worst finding.

Problems, which gather findings that recur, are shown by their number.
"""

from collections import Counter as Tally
from collections.abc import Callable, Sequence

from agenteval_collector.emit.labels import Identity, IdentityLabels
from agenteval_collector.emit.meter import Counter, Levels, Meter
from agenteval_collector.model.news import News, WorstFinding
from agenteval_collector.problems import ProblemState
from agenteval_collector.problems.problem import ProblemCount
from otel_agenteval import semconv
from otel_agenteval.detectors import LOOP_KINDS
from otel_agenteval.finding import Finding


class FindingInstruments:
    """The counters of findings, loops, traces and sessions. Thread-safe."""

    def __init__(self, meter: Meter, labels: IdentityLabels) -> None:
        self._meter = meter
        self._labels = labels
        self._findings = meter.counter(
            "agenteval.findings", "{finding}", "What was observed in traces, by kind and severity."
        )
        self._loops = meter.counter(
            "agenteval.loops", "{loop}", "Loops that agents were found in, without the observed ones."
        )
        self._last_loops: dict[tuple[tuple[str, str], ...], float] = {}
        meter.level(
            "agenteval.loop.last",
            "s",
            "When the newest of them was found, in seconds of Unix time.",
            lambda: [(found_at, dict(loop)) for loop, found_at in list(self._last_loops.items())],
        )
        self._traces = meter.counter("agenteval.traces", "{trace}", "Complete traces of agents by their worst finding.")
        self._sessions = meter.counter(
            "agenteval.sessions", "{session}", "Sessions that are over by their worst finding."
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
                self._last_loops[tuple(loop.items())] = each.found_at / 1e9

    def observe_problems(self, read: Callable[[], Sequence[ProblemCount]]) -> None:
        """Show the number of problems from now on. To be called once.

        Every agent with a problem has all states, most of them 0: an alert on new ones must see them come and go.
        """

        def levels() -> Levels:
            counts: Tally[tuple[str | None, str, str]] = Tally()
            for each in read():
                agent, _ = self._labels.pair(each.agent, None)
                for state in ProblemState:
                    counts[agent, state, each.severity] += each.problems if state is each.state else 0
            for (agent, named, severity), count in counts.items():
                sort = {semconv.AGENTEVAL_PROBLEM_STATE: named, semconv.AGENTEVAL_PROBLEM_SEVERITY: severity}
                yield count, {**Identity(agent).attributes, **sort}

        about = "Failures that recur, each counted once, by their state."
        self._meter.level("agenteval.problems", "{problem}", about, levels)

    def _count_worst(self, counter: Counter, subjects: Sequence[WorstFinding]) -> None:
        for each in subjects:
            worst = "none" if each.severity is None else each.severity.value
            whose = self._identity(each)
            counter.add(1, {semconv.AGENTEVAL_WORST: worst, **whose})

    def _identity(self, about: Finding | WorstFinding) -> dict[str, str]:
        return self._labels.identity(about.agent, about.service, about.service_version, about.environment).attributes
