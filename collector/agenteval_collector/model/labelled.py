"""Scores that have labels beside them."""

from collections.abc import Sequence
from dataclasses import dataclass

from otel_agenteval.metrics import LabelledScore


@dataclass(frozen=True, slots=True)
class Labeller:
    """An author of labels of an evaluator's scores, and their number."""

    author: str | None
    labels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledEvaluator:
    """The newest scores of one evaluator on traces, or sessions, with a label from `source`; the label of one is the
    mean of what was said.

    `labelled_by` are the authors with the most labels of its scores.
    """

    name: str
    method: str
    version: str
    model: str | None
    source: str
    scores: Sequence[LabelledScore]
    labelled_by: Sequence[Labeller]
