"""Ask the judge again about traces that it has judged, to notice when its scores change.

A trace is frozen when it is chosen, with all that is needed to ask about it. So the set of canaries does not depend on
how long spans are kept. Rechecks use the same queue and the same budget as all judging, but not the cache. They change
no outcome.
"""

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import zip_longest
from operator import attrgetter
from typing import Final, TypeAlias

from agenteval_collector.evaluation.referrals import JudgedEvaluator
from agenteval_collector.judge.drift import find_drifts
from agenteval_collector.judge.judgements import SPANS_GONE
from agenteval_collector.judge.ports import JudgementTaker
from agenteval_collector.judge.queue.stage import NO_ROOM
from agenteval_collector.model.drift import Canary, CanaryAnswer, Drift
from agenteval_collector.model.judge_jobs import JudgeJob, Judgement, lot
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import RetryableError
from agenteval_collector.stores.judge_canaries import JudgeCanaryStore
from otel_agenteval.outcome import Evaluation, Failure, Method, Score, Status, SubjectKind, Unscored

logger = logging.getLogger(__name__)

CANDIDATES: Final = 200
"""The number of newest judged traces that canaries are chosen from."""


_AGAIN = Unscored(status=Status.PENDING, reason="asked again; its score stays as it is")

Freeze: TypeAlias = Callable[[JudgeJob], bytes | None]
"""Freezes the trace of a job. Returns None if its spans are gone, or it is too large to be kept. May block."""
EVERY: Final = 20 * 3600.0
"""Seconds until a trace is asked about again, so that it is asked about daily."""
DUE_ASKED_EVERY: Final = 600.0
"""Seconds between two looks for traces that are due."""
LIFETIME: Final = 60 * 24 * 3600.0
"""Seconds until a canary gives way to a newer trace.

This is how long its content is kept at most. It is also how long a drift is reported that somebody has accepted.
"""
ANSWERS_KEPT_FOR: Final = 90 * 24 * 3600.0
"""Seconds for which an answer is kept that no newer answer has replaced."""


def candidates(store: JudgeCanaryStore, names: Container[str]) -> list[list[Evaluation]]:
    """List the traces that may become canaries, each by its scores of these names, in the order of choice.

    The scores of any model count. Labelled traces come first. Within each group the order is random, and traces that
    fail and traces that pass alternate.
    """
    by_outcome: dict[str, list[Evaluation]] = {}
    for labelled in (True, False):
        judged = store.candidates(labelled=labelled, limit=CANDIDATES)
        named = ([score for score in scores if score.name in names] for scores in judged)
        by_outcome |= {scores[0].subject_id: scores for scores in _across(named)}
    return list(by_outcome.values())


def _across(candidates: Iterable[list[Evaluation]]) -> Iterable[list[Evaluation]]:
    """Order traces at random, the same way each time. Traces that fail and traces that pass alternate."""
    drawn = sorted(
        (candidate for candidate in candidates if candidate), key=lambda candidate: lot(candidate[0].subject_id)
    )
    failed = [scores for scores in drawn if any(score.success is False for score in scores)]
    passed = [scores for scores in drawn if not any(score.success is False for score in scores)]
    return [scores for pair in zip_longest(failed, passed) for scores in pair if scores is not None]


def recheck(trace_id: str, session_id: str, revision: int, evaluators: Iterable[JudgedEvaluator], now: int) -> JudgeJob:
    """Make the job that asks again for the scores of these evaluators, at the time `now` (ns)."""
    pending = [
        Evaluation(
            name=evaluator.name,
            version=evaluator.version,
            method=Method.LLM,
            subject=SubjectKind.TRACE,
            subject_id=trace_id,
            revision=revision,
            outcome=_AGAIN,
            threshold=evaluator.threshold,
            session_id=session_id,
            trace_id=trace_id,
            span_id=None,
            agent=None,
            service=None,
            service_version=None,
            model=evaluator.model,
            evaluated_at=now,
        )
        for evaluator in evaluators
    ]
    return JudgeJob(
        trace_id=trace_id,
        session_id=session_id,
        revision=revision,
        urgent=False,
        pending=tuple(pending),
        recheck=True,
    )


class Canaries:
    """Keeps at most `wanted` canaries, and none if that is 0. It stands in front of `taker`, which gets the
    judgements on other traces.

    Belongs to the judge's event loop. Other threads may only read `drifts` and call `stored_drifts`.
    """

    def __init__(
        self,
        store: JudgeCanaryStore,
        evaluators: Sequence[JudgedEvaluator],
        taker: JudgementTaker,
        freeze: Freeze,
        clock: Clock,
        asks_again: Callable[[], bool],
        *,
        wanted: int,
    ) -> None:
        """Ask while `asks_again` returns True: of several processes, one asks."""
        self._store = store
        self._evaluators = {evaluator.name: evaluator for evaluator in evaluators}
        self._taker = taker
        self._freeze = freeze
        self._clock = clock
        self._asks_again = asks_again
        self._wanted = wanted
        self._next = 0.0
        self._under_way: set[str] = set()
        self.drifts: tuple[Drift, ...] = ()

    def due(self) -> list[JudgeJob]:
        """Return the jobs of the canaries to ask about again now. Mostly there are none."""
        if not self._asks_again() or self._clock.monotonic() < self._next:
            return []
        # The next look is set first. Else a store that is away would be asked at every wake of the stage.
        self._next = self._clock.monotonic() + DUE_ASKED_EVERY
        return self._unless_unavailable(self._look) or []

    def take_judgement(self, judgement: Judgement) -> None:
        if judgement.job.recheck:
            self._under_way.discard(judgement.job.trace_id)
            self._unless_unavailable(lambda: self._take(judgement))
        else:
            self._taker.take_judgement(judgement)

    def stored_drifts(self) -> tuple[Drift, ...]:
        """Return the drifts by all stored answers, whichever process asked.

        From any thread. Raises Unavailable.
        """
        return find_drifts([answer for answer in self._store.answers() if answer.name in self._evaluators])

    def _unless_unavailable(self, step: Callable[[], list[JudgeJob] | None]) -> list[JudgeJob] | None:
        try:
            return step()
        except RetryableError as error:
            logger.warning("the judge's canaries wait for the next look: %s", error)
            return None

    def _look(self) -> list[JudgeJob]:
        now = self._clock.now()
        self._store.forget_answers(before=now - round(ANSWERS_KEPT_FOR * 1e9))
        canaries = []
        for canary in self._store.canaries():
            if not self._wanted or canary.chosen_at < now - round(LIFETIME * 1e9):
                self._store.drop_canary(canary.trace_id)
            else:
                canaries.append(canary)
        if not self._wanted:
            return []
        if len(canaries) < self._wanted:
            canaries += self._choose(self._wanted - len(canaries))
        # Compare even if nothing was asked yet: after a restart, the drifts come from the stored answers.
        self._compare()
        newest = {
            (answer.trace_id, answer.name): answer
            for answer in sorted(self._store.answers(), key=attrgetter("last_at"))
        }
        jobs = [
            self._job(canary, newest) for canary in canaries[: self._wanted] if canary.trace_id not in self._under_way
        ]
        jobs = [job for job in jobs if job.pending]
        self._under_way |= {job.trace_id for job in jobs}
        return jobs

    def _choose(self, missing: int) -> list[Canary]:
        """Choose and freeze further canaries, and keep the scores that they have."""
        chosen: list[Canary] = []
        for scores in candidates(self._store, self._evaluators):
            if len(chosen) == missing:
                break
            trace_id, session_id, revision = scores[0].subject_id, scores[0].session_id, scores[0].revision
            now = self._clock.now()
            frozen = self._freeze(recheck(trace_id, session_id, revision, (), now))
            if frozen is None:
                continue
            canary = Canary(trace_id=trace_id, session_id=session_id, revision=revision, chosen_at=now)
            # The model that gave a score may differ from the one that is asked now.
            answers = [
                self._answer(score, score.model, score.evaluated_at) for score in scores if score.model is not None
            ]
            self._store.add_canary(canary, frozen, answers)
            chosen.append(canary)
        return chosen

    def _job(self, canary: Canary, newest: Mapping[tuple[str, str], CanaryAnswer]) -> JudgeJob:
        """Make the job of a canary, from the newest answers by trace and evaluator.

        An evaluator is asked again if its newest answer is too old, or has another version or model than now.
        """
        stale = self._clock.now() - round(EVERY * 1e9)
        due = [
            by
            for by in self._evaluators.values()
            if (score := newest.get((canary.trace_id, by.name)))
            and (score.last_at <= stale or (score.version, score.model) != (by.version, by.model))
        ]
        return recheck(canary.trace_id, canary.session_id, canary.revision, due, self._clock.now())

    def _take(self, judgement: Judgement) -> None:
        job, now = judgement.job, self._clock.now()
        errors = {
            evaluation.outcome.error_type
            for evaluation in judgement.evaluations
            if isinstance(evaluation.outcome, Failure)
        }
        if SPANS_GONE in errors:
            self._store.drop_canary(job.trace_id)
        # Without room in the queue nothing was asked, so the canary stays due.
        elif NO_ROOM not in errors:
            self._store.keep_answers(
                # An outcome has the model that the endpoint names, an answer the one that was asked.
                self._answer(evaluation, self._evaluators[evaluation.name].model, now)
                for evaluation in judgement.evaluations
                if evaluation.outcome.status is not Status.OVER_BUDGET
            )
        self._compare()

    def _compare(self) -> None:
        before = {drift.name for drift in self.drifts if drift.drifted}
        self.drifts = self.stored_drifts()
        for drift in self.drifts:
            if drift.drifted and drift.name not in before:
                logger.warning(
                    "the judge has drifted: %s by %s, %d of %d canaries changed between pass and fail",
                    drift.name, drift.model, len(drift.flips), drift.traces,
                )  # fmt: skip
            elif drift.name in before and not drift.drifted:
                logger.info("the judge does not drift any more: %s by %s", drift.name, drift.model)

    def _answer(self, evaluation: Evaluation, model: str, at: int) -> CanaryAnswer:
        """Make the answer of a model at that time (ns) from the outcome of an evaluator."""
        value = evaluation.outcome.value if isinstance(evaluation.outcome, Score) else None
        return CanaryAnswer(
            trace_id=evaluation.subject_id,
            name=evaluation.name,
            version=evaluation.version,
            model=model,
            threshold=self._evaluators[evaluation.name].threshold,
            first=value,
            first_at=at,
            last=value,
            last_at=at,
            reason=evaluation.outcome.reason,
        )
