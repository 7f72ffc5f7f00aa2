"""Instruments for scores and findings.

An outcome of a trace is counted once, at its first revision. An outcome of a session is counted once, when it is final.
Late spans change what the store and the events say, never what was counted. Each finding is counted once. Traces and
sessions are counted by their worst finding. Problems, which gather findings that recur, are shown as a number.
"""

from collections import Counter as Tally
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

from agenteval_collector.emit.attributes import AgentIdentity, BoundedIdentities, present
from agenteval_collector.emit.meter import Counter, Meter, Observations, exemplar_span
from agenteval_collector.emit.ports import PastSessionCounts
from agenteval_collector.model.news import News, WorstFinding
from agenteval_collector.model.problem import ProblemCount, ProblemState
from agenteval_collector.model.sessions import SessionLevel
from otel_agenteval import semconv
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import Finding
from otel_agenteval.metrics.chance import low_limit
from otel_agenteval.outcome import Evaluation, Score, SubjectKind

SCORE_BOUNDS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class EvaluationInstruments:
    """Records scores and outcomes."""

    def __init__(self, meter: Meter, identities: BoundedIdentities) -> None:
        self._meter = meter
        self._identities = identities
        self._scores = meter.histogram(
            "gen_ai.evaluation.score", "1", "Scores that evaluators gave, from 0 (bad) to 1 (good).", SCORE_BOUNDS
        )
        self._coverage = meter.histogram(
            "agenteval.session.coverage",
            "1",
            "Shares of their signals that final session scores rest on.",
            SCORE_BOUNDS,
        )
        self._outcomes = meter.counter(
            "agenteval.evaluation.outcomes",
            "{evaluation}",
            "Evaluations by what came of them: a score, a reason for none, or a failure.",
        )

    def take_news(self, news: News) -> None:
        """Record first outcomes of traces and final ones of sessions."""
        alike: dict[Hashable, list[Evaluation]] = {}
        for committed in news.evaluations:
            evaluation = committed.evaluation
            if committed.final if evaluation.subject is SubjectKind.SESSION else committed.first:
                alike.setdefault(_series(evaluation), []).append(evaluation)
        # Most evaluations of a commit share a few series, and finding a series takes longer than counting.
        for evaluations in alike.values():
            self._take(evaluations)

    def _take(self, evaluations: Sequence[Evaluation]) -> None:
        """Record evaluations that share a series."""
        first = evaluations[0]
        whose = self._identities.identity(
            first.agent, first.service, first.service_version, first.environment
        ).attributes
        attributes = {**whose, **_what(first)}
        for evaluation in evaluations:
            if isinstance(evaluation.outcome, Score):
                self._scores.record(
                    evaluation.outcome.value, attributes, exemplar_span(evaluation.trace_id, evaluation.span_id)
                )
            if evaluation.subject is SubjectKind.SESSION and evaluation.outcome.coverage is not None:
                about = {**whose, semconv.GEN_AI_EVALUATION_NAME: evaluation.name}
                self._coverage.record(
                    evaluation.outcome.coverage, about, exemplar_span(evaluation.trace_id, evaluation.span_id)
                )
        came_of_it = {
            semconv.AGENTEVAL_STATUS: first.outcome.status.value,
            semconv.GEN_AI_EVALUATION_SCORE_LABEL: score_label(first),
        }
        self._outcomes.add(len(evaluations), {**attributes, **present(came_of_it)})

    def observe_sessions(self, read: Callable[[], Iterable[SessionLevel]], past: PastSessionCounts) -> None:
        """Show how many sessions are open, how many of them score low, and how many low ones chance explains by the
        `past` ones.

        The sources are read from any thread at each scrape and push. Call it once.
        """

        self._meter.observable(
            "agenteval.sessions.active",
            "{session}",
            "Sessions that may still get traces; by evaluation those that were drawn at random for the judge.",
            lambda: self._sum_levels((level, level.active) for level in read()),
        )
        self._meter.observable(
            "agenteval.sessions.low",
            "{session}",
            "Active sessions, drawn at random, that score below the threshold with enough coverage.",
            lambda: self._sum_levels((level, level.low) for level in read() if level.evaluator is not None),
        )
        self._meter.observable(
            "agenteval.sessions.low.limit",
            "{session}",
            "The most of these active sessions that score low by chance, as the agent's own past sessions did.",
            lambda: self._low_limits(read(), past),
        )

    def _sum_levels(self, levels: Iterable[tuple[SessionLevel, int]]) -> list[tuple[int, dict[str, str]]]:
        # Several agents may share the value `_other`, and of equal attributes only the last value is shown: add them
        # up.
        totals: Tally[tuple[AgentIdentity, str | None]] = Tally()
        for level, count in levels:
            agent, service = self._identities.pair(level.agent, level.service)
            totals[AgentIdentity(agent, service), level.evaluator] += count
        return [
            (total, {**identity.attributes, **present({semconv.GEN_AI_EVALUATION_NAME: evaluator})})
            for (identity, evaluator), total in totals.items()
        ]

    def _low_limits(self, levels: Iterable[SessionLevel], past: PastSessionCounts) -> list[tuple[int, dict[str, str]]]:
        # Agents that share `_other` share one limit, of all their sessions together.
        active: Tally[tuple[AgentIdentity, str]] = Tally()
        over: Tally[tuple[AgentIdentity, str]] = Tally()
        over_low: Tally[tuple[AgentIdentity, str]] = Tally()
        for level in levels:
            if level.evaluator is not None:
                agent, service = self._identities.pair(level.agent, level.service)
                whose = AgentIdentity(agent, service, None), level.evaluator
                number, low = past.count(level.agent, level.service, level.evaluator)
                active[whose] += level.active
                over[whose] += number
                over_low[whose] += low
        return [
            (
                low_limit(sessions, over[whose], over_low[whose]),
                {**whose[0].attributes, semconv.GEN_AI_EVALUATION_NAME: whose[1]},
            )
            for whose, sessions in active.items()
        ]


def _series(evaluation: Evaluation) -> Hashable:
    """Return a key that is equal for evaluations of the same series."""
    of_turn = evaluation
    whose = of_turn.agent, of_turn.service, of_turn.service_version, of_turn.environment
    return whose, of_turn.name, of_turn.subject, of_turn.method, of_turn.part, of_turn.outcome.status, of_turn.success


def _what(evaluation: Evaluation) -> dict[str, str]:
    """Return the attributes that describe an evaluation. Those of a judged evaluation include its `part`, because pass
    rates count only `random`."""
    return {
        semconv.GEN_AI_EVALUATION_NAME: evaluation.name,
        semconv.AGENTEVAL_SUBJECT: evaluation.subject.value,
        semconv.AGENTEVAL_METHOD: evaluation.method.value,
        **({semconv.AGENTEVAL_PART: evaluation.part.value} if evaluation.part is not None else {}),
    }


def score_label(evaluation: Evaluation) -> str | None:
    """Return `pass` or `fail` against the threshold; None without a score or a threshold."""
    if evaluation.success is None:
        return None
    return "pass" if evaluation.success else "fail"


class FindingInstruments:
    """Counts findings, loops, traces and sessions. Thread-safe."""

    def __init__(self, meter: Meter, identities: BoundedIdentities) -> None:
        self._meter = meter
        self._identities = identities
        self._findings = meter.counter(
            "agenteval.findings", "{finding}", "What was observed in traces, by kind and severity."
        )
        self._loops = meter.counter(
            "agenteval.loops", "{loop}", "Loops that agents were found in, without the observed ones."
        )
        self._last_loops: dict[tuple[tuple[str, str], ...], float] = {}
        meter.observable(
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
        """Count findings, complete traces and ended sessions. The counter of loops takes only those in mode `alarm`;
        the counter of findings takes all."""
        self._count_worst(self._traces, news.traces)
        self._count_worst(self._sessions, news.sessions)
        for finding in news.counted:
            whose = self._identity(finding)
            kind = {
                semconv.AGENTEVAL_FINDING_KIND: finding.kind,
                semconv.AGENTEVAL_FINDING_SEVERITY: finding.severity.value,
            }
            self._findings.add(1, {**kind, **whose})
            if finding.kind in LOOP_KINDS and finding.is_alarm:
                loop = {semconv.AGENTEVAL_LOOP_KIND: finding.kind, **whose}
                self._loops.add(1, loop)
                self._last_loops[tuple(loop.items())] = finding.found_at / 1e9

    def observe_problems(self, read: Callable[[], Sequence[ProblemCount]]) -> None:
        """Show the number of problems by state, severity and agent. Call it once.

        Every agent with a problem has a series for each state, most of them 0: an alert on new problems must see them
        come and go.
        """

        def levels() -> Observations:
            counts: Tally[tuple[str | None, str, str]] = Tally()
            for reading in read():
                agent, _ = self._identities.pair(reading.whose.agent, None)
                for state in ProblemState:
                    counts[agent, state, reading.severity] += reading.problems if state is reading.state else 0
            for (agent, named, severity), count in counts.items():
                sort = {semconv.AGENTEVAL_PROBLEM_STATE: named, semconv.AGENTEVAL_PROBLEM_SEVERITY: severity}
                yield count, {**AgentIdentity(agent).attributes, **sort}

        about = "Failures that recur, each counted once, by their state."
        self._meter.observable("agenteval.problems", "{problem}", about, levels)

    def _count_worst(self, counter: Counter, subjects: Sequence[WorstFinding]) -> None:
        for subject in subjects:
            worst = "none" if subject.severity is None else subject.severity.value
            whose = self._identity(subject)
            counter.add(1, {semconv.AGENTEVAL_WORST: worst, **whose})

    def _identity(self, about: Finding | WorstFinding) -> dict[str, str]:
        return self._identities.identity(
            about.agent, about.service, about.service_version, about.environment
        ).attributes
