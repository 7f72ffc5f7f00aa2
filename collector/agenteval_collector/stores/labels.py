"""The labels that people give traces, beside the scores of evaluators."""

from itertools import groupby, islice

from sqlalchemy import RowMapping, func, select

from agenteval_collector.model.labelled import LabelledEvaluator
from agenteval_collector.model.reports import Label, LabelSource
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.columns import SameNames
from agenteval_collector.stores.schema import labels, outcomes, own
from otel_agenteval.metrics import LabelledScore
from otel_agenteval.outcome import Status, Subject

NEWEST = 2000
"""Scores of one evaluator that agreement looks at, the newest: what it costs to compute is bounded."""

_SAME = SameNames(Label, labels)
_EVALUATOR = ("name", "method", "version", "model")


def write_label(connection: TenantConnection, label: Label, *, at: int) -> None:
    """Keep a label instead of an earlier one of the same author. `at` is in nanoseconds since the Unix epoch."""
    connection.upsert(labels, [{**_SAME.columns_of(label), "author": label.author or "", "labelled_at": at}])


def read_labels(connection: TenantConnection, trace_id: str) -> list[Label]:
    """Return the labels of a trace by name, the oldest first."""
    query = (
        select(labels)
        .where(own(labels), labels.c.trace_id == trace_id)
        .order_by(labels.c.name, labels.c.labelled_at, labels.c.author)
    )
    rows = connection.execute(query).mappings()
    return [
        Label(**_SAME.fields_in(row) | {"author": row["author"] or None, "source": LabelSource(row["source"])})
        for row in rows
    ]


def read_labelled(connection: TenantConnection, name: str | None) -> list[LabelledEvaluator]:
    """Return the evaluators that have scored a labelled trace; the label is the mean of what people said."""
    key = [outcomes.c[column] for column in _EVALUATOR]
    query = (
        select(
            *key,
            outcomes.c.score,
            outcomes.c.threshold,
            outcomes.c.evaluated_at,
            func.avg(labels.c.value).label("label"),
        )
        .join(
            labels,
            (labels.c.tenant == outcomes.c.tenant)
            & (labels.c.trace_id == outcomes.c.subject_id)
            & (labels.c.name == outcomes.c.name),
        )
        .where(
            own(outcomes),
            outcomes.c.subject == Subject.TRACE,
            outcomes.c.status == Status.SCORED,
            *([outcomes.c.name == name] if name is not None else []),
        )
        .group_by(*key, outcomes.c.subject_id)
        .order_by(*key, outcomes.c.evaluated_at.desc())
    )
    rows = connection.execute(query).mappings()
    return [
        LabelledEvaluator(**evaluator, scores=[_labelled(row) for row in islice(scores, NEWEST)])
        for evaluator, scores in groupby(rows, key=lambda row: {column: row[column] for column in _EVALUATOR})
    ]


def _labelled(row: RowMapping) -> LabelledScore:
    return LabelledScore(row["score"], row["label"], row["threshold"], row["evaluated_at"])
