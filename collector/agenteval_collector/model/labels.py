"""Labels of scores, and the labelled scores of an evaluator."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from otel_agenteval.metrics import LabelledScore


class LabelSource(StrEnum):
    """The kind of author of a label."""

    PERSON = "person"
    """A reviewer."""
    USER = "user"
    """An end user of the agent."""
    EVALUATOR = "evaluator"
    """Another evaluator, whose results came with the telemetry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The value in [0, 1] that somebody says the score `name` should have. None: not said.

    It is about a trace, or else about a session. `labelled_at` is in nanoseconds since the Unix epoch. `drawn`: the
    trace was drawn at random to be labelled, so the label speaks for others.
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
