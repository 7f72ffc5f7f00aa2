"""The labels that people give traces, beside the scores of evaluators."""

from itertools import groupby, islice

from sqlalchemy import RowMapping, func, select
from sqlalchemy.dialects.sqlite import insert

from agenteval_collector.model.labelled import LabelledEvaluator
from agenteval_collector.model.reports import Label
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.schema import labels, outcomes, own
from otel_agenteval.metrics import LabelledScore
from otel_agenteval.outcome import Status, Subject

NEWEST = 2000
"""Scores of one evaluator that agreement looks at, the newest: what it costs to compute is bounded."""

_EVALUATOR = ("name", "method", "version", "model")


def write_label(connection: TenantConnection, label: Label, *, at: int) -> None:
    """Keep a label instead of an earlier one of the same author. `at` is in nanoseconds since the Unix epoch."""
    values = {
        "trace_id": label.trace_id,
        "name": label.name,
        "author": label.author or "",
        "value": label.value,
        "note": label.note,
        "labelled_at": at,
    }
    statement = insert(labels)
    said = {name: statement.excluded[name] for name in ("value", "note", "labelled_at")}
    connection.insert(statement.on_conflict_do_update(index_elements=list(labels.primary_key), set_=said), [values])


def read_labels(connection: TenantConnection, trace_id: str) -> list[Label]:
    """The labels of a trace by name, the oldest first."""
    query = (
        select(labels)
        .where(own(labels), labels.c.trace_id == trace_id)
        .order_by(labels.c.name, labels.c.labelled_at, labels.c.author)
    )
    return [
        Label(
            trace_id=trace_id,
            name=row.name,
            value=row.value,
            author=row.author or None,
            note=row.note,
            labelled_at=row.labelled_at,
        )
        for row in connection.execute(query)
    ]


def read_labelled(connection: TenantConnection, name: str | None) -> list[LabelledEvaluator]:
    """The evaluators that have scored a labelled trace; the label is the mean of what people said."""
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
