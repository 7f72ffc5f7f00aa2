"""Read the judged traces from which pass rates are computed: those of the random part, with labels drawn at random."""

from collections.abc import Collection
from typing import Final

from sqlalchemy import ColumnElement, TextClause, exists, func, or_, select

from agenteval_collector.model.labels import LabelSource
from agenteval_collector.model.pass_rates import Asked, JudgedScore, Rated, RatedChange
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.labels import about, late_enough
from agenteval_collector.stores.rows import has
from agenteval_collector.stores.schema import JUDGED_AT_RANDOM, JUDGED_IN_VAIN, labels, outcomes, own, traces
from otel_agenteval.outcome import JudgedPart, Method, Status, SubjectKind

NEWEST: Final = 5000
"""The most judged traces that a rate is computed from: the newest. This bounds the cost."""

_RANDOM_LABELS = (own(labels), labels.c.drawn, labels.c.source == LabelSource.PERSON)


def read_rated(connection: TenantConnection) -> list[RatedChange]:
    """Return everything that has a pass rate. The one with the newest judgement comes first."""
    by_name = select(labels.c.name, func.count(), func.max(labels.c.labelled_at)).where(*_RANDOM_LABELS)
    labelled = {name: rest for name, *rest in connection.execute(by_name.group_by(labels.c.name))}
    judged, in_vain = _newest(connection, JUDGED_AT_RANDOM), _newest(connection, JUDGED_IN_VAIN)
    return [
        RatedChange(rated, (*newest, *in_vain.get(rated, ()), *labelled.get(rated.name, ())))
        for rated, newest in judged.items()
    ]


def _newest(connection: TenantConnection, which: TextClause) -> dict[Rated, tuple[int, int]]:
    """Return the time of the newest such judgement, and their number, by what is rated. The newest comes first."""
    # Grouped in the order of the index, so that nothing has to be sorted.
    key = (outcomes.c.name, outcomes.c.agent, outcomes.c.service, outcomes.c.service_version)
    newest = func.max(outcomes.c.evaluated_at)
    query = (
        select(*key, newest, func.count())
        .where(own(outcomes), which)
        .group_by(*key)
        .order_by(newest.desc(), *(column.nulls_first() for column in key))
    )
    rows = connection.execute(query)
    return {Rated(agent, service, version, name): (at, count) for name, agent, service, version, at, count in rows}


def read_judged(connection: TenantConnection, rated: Rated) -> list[JudgedScore]:
    """Return the `NEWEST` judged traces, or sessions, the newest first. If one was judged twice, its newest score
    counts.

    Its label is the mean of what people said, and passes at the threshold of the score. What people said of a session
    before it went on does not count.
    """
    share = (
        select(func.avg(labels.c.value))
        .where(
            *_RANDOM_LABELS,
            about(outcomes.c.subject, outcomes.c.subject_id),
            labels.c.name == outcomes.c.name,
            late_enough(),
        )
        .scalar_subquery()
    )
    query = (
        select(
            outcomes.c.subject_id,
            outcomes.c.session_id,
            outcomes.c.success,
            outcomes.c.subject,
            outcomes.c.model,
            (share >= outcomes.c.threshold).label("label"),
        )
        .where(own(outcomes), JUDGED_AT_RANDOM, *_is(rated))
        .order_by(outcomes.c.evaluated_at.desc())
        .limit(NEWEST)
    )
    by_subject: dict[str, JudgedScore] = {}
    for row in connection.execute(query):
        subject = SubjectKind(row.subject)
        judged = JudgedScore(row.subject_id, row.session_id, bool(row.success), row.label, subject, row.model)
        # The rows are newest first, so the newest score of a subject stays.
        by_subject.setdefault(row.subject_id, judged)
    return list(by_subject.values())


def read_asked(connection: TenantConnection, rated: Rated, session_ids: Collection[str]) -> list[Asked]:
    """Return the traces, or sessions, of these sessions that were judged at random, or were left out of the random
    part, where it may have been asked all the same. If one was judged twice, its newest outcome counts."""
    asked = outcomes.c.status.in_([Status.PENDING, Status.FAILED, Status.OVER_BUDGET])
    beside = outcomes.c.part.is_distinct_from(JudgedPart.RANDOM) & asked
    kept = or_(outcomes.c.status == Status.SAMPLED_OUT, outcomes.c.success.is_not(None), beside)
    columns = ("subject", "subject_id", "session_id", "success", "part", "status")
    query = (
        select(*(outcomes.c[name] for name in columns))
        .where(own(outcomes), among(outcomes.c.session_id, "ids"), *_is(rated), outcomes.c.method == Method.LLM, kept)
        .order_by(outcomes.c.evaluated_at)
    )
    rows = {row.subject_id: row for row in connection.execute(query, ids(session_ids))}
    ends: dict[str, tuple[str, str]] = {}
    if any(row.subject == SubjectKind.SESSION for row in rows.values()):
        members = select(traces.c.session_id, traces.c.trace_id).where(own(traces), among(traces.c.session_id, "ids"))
        for session_id, trace_id in connection.execute(members.order_by(traces.c.started_at), ids(session_ids)):
            first, _ = ends.get(session_id, (trace_id, trace_id))
            ends[session_id] = first, trace_id
    return [
        Asked(
            row.subject_id,
            row.session_id,
            bool(row.success) if row.part == JudgedPart.RANDOM and row.success is not None else None,
            row.status != Status.SAMPLED_OUT,
            ends.get(row.subject_id, ("", "")) if row.subject == SubjectKind.SESSION else (row.subject_id,) * 2,
        )
        for row in rows.values()
    ]


def count_unscored(connection: TenantConnection, rated: Rated) -> int:
    """Count the traces, or sessions, that were drawn but could not be scored, since the oldest of those that
    `read_judged` returns. One that has a score by now is not counted."""
    scored = outcomes.alias()
    has_score = exists().where(
        own(scored),
        scored.c.subject == outcomes.c.subject,
        scored.c.subject_id == outcomes.c.subject_id,
        scored.c.name == outcomes.c.name,
        scored.c.method == Method.LLM,
        scored.c.success.is_not(None),
    )
    judged = select(outcomes.c.evaluated_at).where(own(outcomes), JUDGED_AT_RANDOM, *_is(rated))
    since = connection.execute(judged.order_by(outcomes.c.evaluated_at.desc()).offset(NEWEST - 1).limit(1)).scalar()
    query = select(func.count(outcomes.c.subject_id.distinct())).where(
        own(outcomes), JUDGED_IN_VAIN, *_is(rated), outcomes.c.evaluated_at >= (since or 0), ~has_score
    )
    return int(connection.execute(query).scalar_one())


def _is(rated: Rated) -> tuple[ColumnElement[bool], ...]:
    return (
        outcomes.c.name == rated.name,
        has(outcomes.c.agent, rated.agent),
        has(outcomes.c.service, rated.service),
        has(outcomes.c.service_version, rated.version),
    )
