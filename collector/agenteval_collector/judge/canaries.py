"""Ask the judge again about traces that it has judged, to notice when it says something else.

The set stays as it is: a trace leaves it only when its spans are not kept any more, and another one takes its place.
Whatever is asked goes the way of all judging, under the same budget, but not through the cache, and changes no outcome.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from agenteval_collector.judge.canary_choice import answer_of, choose
from agenteval_collector.judge.drift import find_drifts
from agenteval_collector.judge.judgements import SPANS_GONE
from agenteval_collector.judge.ports import CanaryStore, JudgementTaker
from agenteval_collector.judge.queue.stage import NO_ROOM
from agenteval_collector.judge.referrals import JudgedEvaluator
from agenteval_collector.model.drift import CanaryAnswer, Drift
from agenteval_collector.model.judging import JudgeJob, Judgement
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import RetryableError
from otel_agenteval.outcome import Evaluation, Failure, Method, Status, Subject, Unscored

logger = logging.getLogger(__name__)

EVERY: Final = 20 * 3600.0
"""Seconds until a trace is asked about again: daily, and before a log that keeps a day has lost its spans."""
LOOK_EVERY: Final = 600.0
"""Seconds between two looks for what is to be asked."""
KEPT: Final = 90 * 24 * 3600.0
"""Seconds for which answers are kept that no newer one has replaced."""


class Canaries:
    """At most `wanted` traces; the taker of judgements in front of `evaluation`. Belongs to the judge's event loop, but
    `drifts`, which any thread may read."""

    def __init__(
        self,
        store: CanaryStore,
        evaluators: Sequence[JudgedEvaluator],
        evaluation: JudgementTaker,
        clock: Clock,
        *,
        wanted: int,
    ) -> None:
        self._store = store
        self._evaluators = {each.name: each for each in evaluators}
        self._evaluation = evaluation
        self._clock = clock
        self._wanted = wanted
        self._next = 0.0
        self._under_way: set[str] = set()
        self.drifts: tuple[Drift, ...] = ()

    def due(self) -> list[JudgeJob]:
        """Return the traces to ask about again now; most of the time none."""
        if not self._wanted or self._clock.monotonic() < self._next:
            return []
        self._next = self._clock.monotonic() + LOOK_EVERY
        return self._unless_unavailable(self._look) or []

    def take_judgement(self, judgement: Judgement) -> None:
        if judgement.job.recheck:
            self._under_way.discard(judgement.job.trace_id)
            self._unless_unavailable(lambda: self._take(judgement))
        else:
            self._evaluation.take_judgement(judgement)

    def _unless_unavailable(self, step: Callable[[], list[JudgeJob] | None]) -> list[JudgeJob] | None:
        try:
            return step()
        except RetryableError as error:
            logger.warning("the judge's canaries wait for the next look: %s", error)
            return None

    def _look(self) -> list[JudgeJob]:
        self._store.forget_answers(before=self._clock.now() - round(KEPT * 1e9))
        canaries = self._store.canaries()
        missing = self._wanted - len(_traces(canaries))
        if missing > 0:
            chosen = choose(self._store, self._evaluators, missing)
            self._store.keep_answers(chosen)
            canaries = [*canaries, *chosen]
        self._compare()
        jobs = [self._job(answers) for answers in list(_traces(canaries).values())[: self._wanted]]
        jobs = [job for job in jobs if job.pending and job.trace_id not in self._under_way]
        self._under_way |= {job.trace_id for job in jobs}
        return jobs

    def _job(self, answers: Sequence[CanaryAnswer]) -> JudgeJob:
        """Make the job of a canary: pending is what was answered long ago, or in another way than it is asked now."""
        newest = {each.name: each for each in sorted(answers, key=attrgetter("last_at"))}
        stale = self._clock.now() - round(EVERY * 1e9)
        pending = [
            _pending(each, by)
            for name, each in newest.items()
            if (by := self._evaluators.get(name))
            and (each.last_at <= stale or (each.version, each.model) != (by.version, by.model))
        ]
        any_answer = answers[0]
        return JudgeJob(
            trace_id=any_answer.trace_id,
            session_id=any_answer.session_id,
            revision=any_answer.revision,
            urgent=False,
            pending=tuple(pending),
            recheck=True,
        )

    def _take(self, judgement: Judgement) -> None:
        job, now = judgement.job, self._clock.now()
        errors = {each.outcome.error_type for each in judgement.evaluations if isinstance(each.outcome, Failure)}
        if SPANS_GONE in errors:
            self._store.drop_canary(job.trace_id)
        elif NO_ROOM not in errors:
            self._store.keep_answers(
                answer_of(asked, self._evaluators[asked.name], given, now)
                for asked, given in zip(job.pending, judgement.evaluations, strict=True)
                if given.outcome.status is not Status.OVER_BUDGET
            )
        self._compare()

    def _compare(self) -> None:
        before = {each.name for each in self.drifts if each.drifted}
        self.drifts = find_drifts([each for each in self._store.answers() if each.name in self._evaluators])
        for each in self.drifts:
            if each.drifted and each.name not in before:
                logger.warning(
                    "the judge has drifted: %s by %s, %d of %d canaries changed between pass and fail",
                    each.name, each.model, len(each.flips), each.traces,
                )  # fmt: skip


def _traces(answers: Iterable[CanaryAnswer]) -> Mapping[str, list[CanaryAnswer]]:
    """Group answers by trace, in an order that does not change."""
    found: dict[str, list[CanaryAnswer]] = {}
    for each in sorted(answers, key=attrgetter("trace_id")):
        found.setdefault(each.trace_id, []).append(each)
    return found


def _pending(answer: CanaryAnswer, by: JudgedEvaluator) -> Evaluation:
    return Evaluation(
        name=by.name,
        version=by.version,
        method=Method.LLM,
        subject=Subject.TRACE,
        subject_id=answer.trace_id,
        revision=answer.revision,
        outcome=Unscored(status=Status.PENDING, reason="asked again, to see whether the judge drifts"),
        threshold=by.threshold,
        session_id=answer.session_id,
        trace_id=answer.trace_id,
        span_id=None,
        agent=None,
        service=None,
        service_version=None,
        model=by.model,
        evaluated_at=answer.last_at,
    )
