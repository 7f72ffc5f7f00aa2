"""Scores as OpenTelemetry instruments.

A trace's outcome is counted once, at its first revision; a session's once, when it is final. Late spans change what
the store and the events say, never what was counted.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from opentelemetry.metrics import Meter

from agenteval_collector.emit.counter import EventCounter
from agenteval_collector.emit.gauges import show_level
from agenteval_collector.emit.labels import Identity, IdentityLabels, present
from agenteval_collector.emit.ports import SessionLevels
from agenteval_collector.model.news import News
from agenteval_collector.model.sessions import SessionLevel
from otel_agenteval import semconv
from otel_agenteval.outcome import Evaluation, Score, Subject

SCORE_BOUNDS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class EvaluationInstruments:
    """Records scores and outcomes."""

    def __init__(self, meter: Meter, labels: IdentityLabels) -> None:
        self._meter = meter
        self._labels = labels
        self._scores = meter.create_histogram(
            "gen_ai.evaluation.score",
            unit="1",
            description="Scores that evaluators gave, from 0 (bad) to 1 (good).",
            explicit_bucket_boundaries_advisory=SCORE_BOUNDS,
        )
        self._outcomes = EventCounter(
            meter,
            "agenteval.evaluation.outcomes",
            unit="{evaluation}",
            description="Evaluations by what came of them: a score, a reason for none, or a failure.",
        )

    def take_news(self, news: News) -> None:
        """Record and count what counts now."""
        for committed in news.evaluations:
            evaluation = committed.evaluation
            counts = committed.final if evaluation.subject is Subject.SESSION else committed.first
            if not counts:
                continue
            attributes = self._attributes(evaluation)
            if isinstance(evaluation.outcome, Score):
                self._scores.record(evaluation.outcome.value, attributes)
            came_of_it = {
                semconv.AGENTEVAL_STATUS: evaluation.outcome.status.value,
                semconv.GEN_AI_EVALUATION_SCORE_LABEL: score_label(evaluation),
            }
            self._outcomes.add(1, {**attributes, **present(came_of_it)})

    def observe_sessions(self, sessions: SessionLevels) -> None:
        """Show the levels of `sessions` from now on. To be called once."""

        show_level(
            self._meter,
            "agenteval.sessions.active",
            "{session}",
            "Sessions that may still get traces; by evaluation those that were drawn at random for the judge.",
            lambda: self._sum_levels((level, level.active) for level in sessions.session_levels()),
        )
        show_level(
            self._meter,
            "agenteval.sessions.low",
            "{session}",
            "Active sessions, drawn at random, that score below the threshold with enough coverage.",
            lambda: self._sum_levels(
                (level, level.low) for level in sessions.session_levels() if level.evaluator is not None
            ),
        )

    def _attributes(self, evaluation: Evaluation) -> dict[str, str]:
        """Return the attributes that the score and the count of an evaluation have in common. What rests on the judge
        says on which part of the sessions: a rate is one of the random part alone."""
        identity = self._labels.identity(evaluation.agent, evaluation.service, evaluation.service_version)
        return {
            **identity.attributes,
            semconv.GEN_AI_EVALUATION_NAME: evaluation.name,
            semconv.AGENTEVAL_SUBJECT: evaluation.subject.value,
            semconv.AGENTEVAL_METHOD: evaluation.method.value,
            **({semconv.AGENTEVAL_PART: evaluation.part.value} if evaluation.part is not None else {}),
        }

    def _sum_levels(self, levels: Iterable[tuple[SessionLevel, int]]) -> list[tuple[int, dict[str, str]]]:
        # Several agents may share the label `_other`, and of equal attribute sets the SDK keeps the last value only.
        totals: Counter[tuple[Identity, str | None]] = Counter()
        for level, count in levels:
            agent, service = self._labels.pair(level.agent, level.service)
            totals[Identity(agent, service, None), level.evaluator] += count
        return [
            (total, {**identity.attributes, **present({semconv.GEN_AI_EVALUATION_NAME: evaluator})})
            for (identity, evaluator), total in totals.items()
        ]


def score_label(evaluation: Evaluation) -> str | None:
    """Return `pass` or `fail` against the evaluation's threshold. None where it has no score or no threshold."""
    if evaluation.success is None:
        return None
    return "pass" if evaluation.success else "fail"
