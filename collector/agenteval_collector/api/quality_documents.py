"""The JSON documents about the worth of scores: rates of passing, draws of traces to be labelled, and agreement."""

from typing import Literal

from typing_extensions import TypedDict

from agenteval_collector.api.documents import Interval


class HalfDocument(TypedDict):
    """The older or the newer half of the scores with a label."""

    labels: int
    first: str | None
    last: str | None
    mean_score: float
    mean_label: float


class LabellerDocument(TypedDict):
    """An author of labels, and the number of traces with a score of the evaluator that they labelled."""

    author: str | None
    labels: int


class AgreementDocument(TypedDict):
    """The agreement of an evaluator's scores with labels."""

    name: str
    method: str
    evaluator_version: str
    model: str | None
    source: str
    labels: int
    labelled_by: list[LabellerDocument]
    metrics: dict[str, float | None]
    intervals: dict[str, Interval]
    reasons: dict[str, str]
    older: HalfDocument | None
    newer: HalfDocument | None


class QualityDocument(TypedDict):
    """The rate at which an agent's version passes an evaluator; `reason` says why there is no interval. `unscored` were
    drawn at random and judged in vain; `models` are the judge's, newest first."""

    agent: str | None
    version: str | None
    name: str
    estimate: float | None
    interval: Interval | None
    estimator: Literal["ppi", "labels", "uncorrected"]
    judged: int
    unscored: int
    labelled: int
    models: list[str]
    sensitivity: float | None
    sensitivity_interval: Interval | None
    specificity: float | None
    specificity_interval: Interval | None
    reason: str | None


class DrawDocument(TypedDict):
    """A trace, or a session (`trace_id` is null), that was drawn to be labelled. `probability` is the chance of those
    with its verdict to be labelled, once it is."""

    subject: Literal["trace", "session"]
    trace_id: str | None
    session_id: str
    name: str
    agent: str | None
    version: str | None
    probability: float
    judged: int
    labelled: int
