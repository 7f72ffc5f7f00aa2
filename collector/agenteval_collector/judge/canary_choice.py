"""Choose the traces that the judge is asked about again."""

import hashlib
from collections.abc import Container, Iterable
from itertools import zip_longest
from typing import Final

from agenteval_collector.judge.ports import CanaryStore
from otel_agenteval.outcome import Evaluation

CANDIDATES: Final = 200
"""Newest judged traces that canaries are chosen from."""


def candidates(store: CanaryStore, names: Container[str]) -> list[list[Evaluation]]:
    """List traces that may be canaries by their scores of these names, whichever model gave them, in the order of
    choice: labelled ones first, then at random, from those that fail and from those that pass in turn."""
    found = {
        each[0].subject_id: each
        for labelled in (True, False)
        for each in _across(
            [score for score in scores if score.name in names]
            for scores in store.candidates(labelled=labelled, limit=CANDIDATES)
        )
    }
    return list(found.values())


def _across(candidates: Iterable[list[Evaluation]]) -> Iterable[list[Evaluation]]:
    """Put traces in a random order that is the same each time, those that fail and those that pass in turn."""
    drawn = sorted((each for each in candidates if each), key=lambda each: _lot(each[0].subject_id))
    failed = [each for each in drawn if any(score.success is False for score in each)]
    passed = [each for each in drawn if not any(score.success is False for score in each)]
    return [each for pair in zip_longest(failed, passed) for each in pair if each is not None]


def _lot(trace_id: str) -> bytes:
    return hashlib.sha256(trace_id.encode()).digest()
