"""Scores that people have labelled."""

from collections.abc import Sequence
from dataclasses import dataclass

from otel_agenteval.metrics import LabelledScore


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledEvaluator:
    """The newest scores of one evaluator on traces with a label; the label of a trace is the mean of what was said."""

    name: str
    method: str
    version: str
    model: str | None
    scores: Sequence[LabelledScore]
