"""Labels of scores, and the labelled scores of an evaluator."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from otel_agenteval.metrics import LabelledScore


class LabelSource(StrEnum):
    """The sort of author of a label."""

    PERSON = "person"
    """A reviewer."""
    USER = "user"
    """An end user of the agent."""
    EVALUATOR = "evaluator"
    """Another evaluator, whose results came with the telemetry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The value in [0, 1] that somebody says the score `name` should have, and when it was given. None: not said.

    It is about a trace, or else about a session.

    `drawn`: the trace was drawn at random to be labelled, so that the label speaks for others.
    """

    trace_id: str | None = None
    session_id: str | None = None
    name: str
    value: float
    author: str | None = None
    note: str | None = None
    source: LabelSource = LabelSource.PERSON
    drawn: bool = False
    labelled_at: int | None = None


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
