"""The labels that people, end users and other evaluators give, beside the scores of evaluators."""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, Select, and_, case, delete, exists, func, or_, select, union_all

from agenteval_collector.model.cursors import Page
from agenteval_collector.model.labelled_scores import LabelledEvaluator, Labeller
from agenteval_collector.model.labels import Label, LabelSource
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.paging import read_page
from agenteval_collector.stores.rows import FieldMap
from agenteval_collector.stores.schema import labels, matching, outcomes, own, sessions, traces
from otel_agenteval.metrics.agreement import LabelledScore
from otel_agenteval.outcome import Status, SubjectKind

NEWEST = 2000
"""The most scores of one evaluator that agreement looks at: the newest. This bounds the cost."""

MOST_LABELLERS = 20
"""The most authors that are named with an evaluator: those with the most labels."""

_FIELDS = FieldMap(Label, labels)
_EMPTY = ("trace_id", "session_id", "author")
"""Columns with an empty text if the label has no value."""
LABELS = "labels"
"""The name that every transaction holds that writes labels. Each writes several labels in any order, so two of them
side by side could wait for each other."""
FEEDBACK = "user_feedback"
"""The name of feedback that was given without one."""
_WANTED = ("task_completion", "goal_success")
"""Evaluators that say whether the user got what was wanted."""
_EVALUATOR = ("name", "method", "version", "model")


def write_label(connection: TenantConnection, label: Label, *, at: int) -> None:
    """Keep a label in place of an earlier one of the same source and author. `at` is in nanoseconds since the Unix
    epoch."""
    fields = {name: getattr(label, name) or "" for name in _EMPTY}
    row = {**_FIELDS.columns_of(label), **fields, "labelled_at": at}
    connection.upsert(labels, [row])


def about(subject: ColumnElement[str], subject_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Make the condition that a label is about this trace or this session."""
    is_trace = subject == SubjectKind.TRACE
    return and_(
        labels.c.trace_id == case((is_trace, subject_id), else_=""),
        labels.c.session_id == case((is_trace, ""), else_=subject_id),
    )


def late_enough() -> ColumnElement[bool]:
    """Make the condition that a person who labelled a session had seen all that the score is about. A session goes on,
    and is scored again. A trace does not. What users and other evaluators say comes before any score."""
    return or_(
        outcomes.c.subject == SubjectKind.TRACE,
        labels.c.source != LabelSource.PERSON,
        labels.c.labelled_at >= outcomes.c.evaluated_at,
    )


def trim_labels(connection: TenantConnection, before: int) -> None:
    """Forget labels of users and of other evaluators that are from before that time (ns), and whose trace or session
    has not come."""
    same_trace = exists().where(own(traces), traces.c.trace_id == labels.c.trace_id)
    same_session = exists().where(own(sessions), sessions.c.session_id == labels.c.session_id)
    connection.execute(
        delete(labels).where(
            own(labels),
            labels.c.source != LabelSource.PERSON,
            labels.c.labelled_at < before,
            ~case((labels.c.trace_id == "", same_session), else_=same_trace),
        )
    )


def read_session_labels(connection: TenantConnection, session_id: str) -> list[Label]:
    """Return the labels of a session by name, the oldest first."""
    query = _IN_ORDER.where(labels.c.trace_id == "", labels.c.session_id == session_id)
    return [_label(row) for row in connection.execute(query).mappings()]


def read_trace_labels(connection: TenantConnection, trace_ids: Collection[str]) -> dict[str, list[Label]]:
    """Return the labels of each trace by name, the oldest first."""
    by_trace: dict[str, list[Label]] = {trace_id: [] for trace_id in trace_ids}
    for row in connection.execute(_OF_TRACES, ids(trace_ids)).mappings():
        by_trace[row["trace_id"]].append(_label(row))
    return by_trace


def read_labels(
    connection: TenantConnection, name: str | None, source: LabelSource | None, cursor: str | None, limit: int
) -> Page[Label]:
    """Return at most `limit` labels from where the cursor points, the newest first. Raises InvalidRequest for a cursor
    of another listing."""
    # One text that no two labels share.
    key = labels.c.trace_id.concat("\n").concat(labels.c.session_id)
    for column in (labels.c.name, labels.c.source, labels.c.author, labels.c.sender):
        key = key.concat("\n").concat(column)
    order = labels.c.labelled_at, key.label("key")
    query = select(labels, order[1]).where(own(labels))
    for column, wanted in ((labels.c.name, name), (labels.c.source, source)):
        if wanted is not None:
            query = query.where(column == wanted)
    return read_page(connection, query, order, limit=limit, cursor=cursor).map(_label)


_IN_ORDER = (
    select(labels).where(own(labels)).order_by(labels.c.name, labels.c.labelled_at, labels.c.source, labels.c.author)
)
_OF_TRACES = _IN_ORDER.where(among(labels.c.trace_id, "ids"), labels.c.session_id == "")


def _label(row: Mapping[Any, Any]) -> Label:
    fields = {name: row[name] or None for name in _EMPTY}
    return Label(**_FIELDS.fields_in(row) | fields | {"source": LabelSource(row["source"])})


def read_labelled(connection: TenantConnection, name: str | None) -> list[LabelledEvaluator]:
    """Return the evaluators that have scored something with a label, separately for each source of labels. Several
    labels of one subject count as their mean. Feedback without a name is compared with `task_completion` or
    `goal_success`."""
    found = union_all(
        *(_scores_with_labels(kind, name) for kind in (SubjectKind.TRACE, SubjectKind.SESSION))
    ).subquery()
    key = [found.c[column] for column in (*_EVALUATOR, "source")]
    of_score = [found.c[column] for column in ("score", "threshold", "evaluated_at", "session_id")]
    query = (
        select(*key, *of_score, func.avg(found.c.value).label("label"))
        .group_by(*key, found.c.subject_id, *of_score)
        .order_by(*key, found.c.evaluated_at.desc())
    )
    rows = connection.execute(query).mappings().all()
    labelled_by = _labelled_by(connection, key, found.c.author)
    return [
        LabelledEvaluator(
            **dict(zip((column.name for column in key), evaluator, strict=True)),
            scores=[_labelled(row) for row in islice(scores, NEWEST)],
            labelled_by=labelled_by[evaluator],
        )
        for evaluator, scores in groupby(rows, key=lambda row: tuple(row[column.name] for column in key))
    ]


def _scores_with_labels(kind: SubjectKind, name: str | None) -> Select[Any]:
    """Make the query for scores of traces or of sessions, of one evaluator or of all, each with each of its labels."""
    of_trace, of_session = labels.c.trace_id, labels.c.session_id
    subject_id, other = (of_trace, of_session) if kind is SubjectKind.TRACE else (of_session, of_trace)
    of_score = [*_EVALUATOR, "subject_id", "score", "threshold", "evaluated_at", "session_id"]
    same_name = or_(labels.c.name == outcomes.c.name, and_(labels.c.name == FEEDBACK, outcomes.c.name.in_(_WANTED)))
    return (
        select(*(outcomes.c[column] for column in of_score), labels.c.source, labels.c.author, labels.c.value)
        .join(labels, and_(matching(labels, outcomes, subject_id.name, "subject_id"), other == "", same_name))
        .where(
            own(outcomes),
            outcomes.c.subject == kind,
            # SQLite looks these up. Without them it would read all scores there are.
            outcomes.c.subject_id.in_(select(subject_id).where(own(labels), other == "")),
            outcomes.c.status == Status.SCORED,
            late_enough(),
            *([] if name is None else [outcomes.c.name == name]),
        )
    )


def _labelled_by(
    connection: TenantConnection, key: Sequence[ColumnElement[Any]], author: ColumnElement[str]
) -> dict[tuple[Any, ...], list[Labeller]]:
    """Return, by `key`, the authors who labelled an evaluator's scores. The author with the most labels comes first."""
    count = func.count()
    query = select(*key, author, count).group_by(*key, author).order_by(count.desc(), author)
    by_evaluator: dict[tuple[Any, ...], list[Labeller]] = {}
    for *evaluator, named, labelled in connection.execute(query):
        authors = by_evaluator.setdefault(tuple(evaluator), [])
        if len(authors) < MOST_LABELLERS:
            authors.append(Labeller(named or None, labelled))
    return by_evaluator


def _labelled(row: RowMapping) -> LabelledScore:
    return LabelledScore(row["score"], row["label"], row["threshold"], row["evaluated_at"], row["session_id"])
