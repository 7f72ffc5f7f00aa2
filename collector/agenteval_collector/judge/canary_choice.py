"""Choose the traces that the judge is asked about again."""

import hashlib
from collections.abc import Iterable, Mapping
from itertools import chain, zip_longest
from typing import Final

from agenteval_collector.judge.ports import CanaryStore
from agenteval_collector.judge.referrals import JudgedEvaluator
from agenteval_collector.model.drift import CanaryAnswer
from otel_agenteval.outcome import Evaluation, Score

CANDIDATES: Final = 200
"""Newest judged traces that canaries are chosen from."""


def choose(store: CanaryStore, evaluators: Mapping[str, JudgedEvaluator], missing: int) -> list[CanaryAnswer]:
    """Choose further canaries with the scores that they have: labelled ones first, then at random, from those that fail
    and from those that pass in turn."""
    found = {
        each[0].subject_id: each
        for labelled in (True, False)
        for each in _across(
            _current(each, evaluators) for each in store.candidates(labelled=labelled, limit=CANDIDATES)
        )
    }
    scores = chain.from_iterable(list(found.values())[:missing])
    return [answer_of(each, evaluators[each.name], each, each.evaluated_at) for each in scores]


def answer_of(asked: Evaluation, by: JudgedEvaluator, given: Evaluation, at: int) -> CanaryAnswer:
    """Return what was `given` at that time (ns) to what was `asked`."""
    value = given.outcome.value if isinstance(given.outcome, Score) else None
    return CanaryAnswer(
        trace_id=asked.subject_id,
        session_id=asked.session_id,
        revision=asked.revision,
        name=by.name,
        version=asked.version,
        model=by.model,
        threshold=by.threshold,
        first=value,
        first_at=at,
        last=value,
        last_at=at,
        reason=given.outcome.reason,
    )


def _current(scores: Iterable[Evaluation], evaluators: Mapping[str, JudgedEvaluator]) -> list[Evaluation]:
    """Return those that answer the questions as they are asked now."""
    return [each for each in scores if each.name in evaluators and each.version == evaluators[each.name].version]


def _across(candidates: Iterable[list[Evaluation]]) -> Iterable[list[Evaluation]]:
    """Put traces in a random order that is the same each time, those that fail and those that pass in turn."""
    drawn = sorted((each for each in candidates if each), key=lambda each: _lot(each[0].subject_id))
    failed = [each for each in drawn if any(score.success is False for score in each)]
    passed = [each for each in drawn if not any(score.success is False for score in each)]
    return [each for pair in zip_longest(failed, passed) for each in pair if each is not None]


def _lot(trace_id: str) -> bytes:
    return hashlib.sha256(trace_id.encode()).digest()
