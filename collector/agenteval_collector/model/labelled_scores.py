"""The scores of an evaluator beside the labels that they were given."""

from collections.abc import Sequence
from dataclasses import dataclass

from otel_agenteval.metrics.agreement import LabelledScore


@dataclass(frozen=True, slots=True)
class Labeller:
    """An author of labels, and how many scores of one evaluator they labelled."""

    author: str | None
    labels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledEvaluator:
    """The newest labelled scores of one evaluator on traces, or on sessions, with labels from `source`.

    A score with several labels has their mean. `labelled_by` are the authors with the most labels.
    """

    name: str
    method: str
    version: str
    model: str | None
    source: str
    scores: Sequence[LabelledScore]
    labelled_by: Sequence[Labeller]
