"""The judged traces that rates of passing are computed from: those of the random part, with labels drawn at random."""

from typing import Final

from sqlalchemy import ColumnElement, func, select

from agenteval_collector.model.quality import JudgedScore, Rated, RatedChange
from agenteval_collector.model.reports import LabelSource
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.labels import about
from agenteval_collector.stores.schema import JUDGED_AT_RANDOM, labels, outcomes, own
from otel_agenteval.outcome import Subject

NEWEST: Final = 5000
"""Judged traces that a rate is computed from, the newest: what it costs is bounded."""

_RANDOM_LABELS = (own(labels), labels.c.drawn, labels.c.source == LabelSource.PERSON)


def read_rated(connection: TenantConnection) -> list[RatedChange]:
    """Return everything that has a rate of passing, that with the newest judgement first."""
    by_name = select(labels.c.name, func.count(), func.max(labels.c.labelled_at)).where(*_RANDOM_LABELS)
    labelled = {name: rest for name, *rest in connection.execute(by_name.group_by(labels.c.name))}
    # In the order of the index, which then needs no sorting.
    key = (outcomes.c.name, outcomes.c.agent, outcomes.c.service_version)
    newest = func.max(outcomes.c.evaluated_at)
    query = select(*key, newest, func.count()).where(own(outcomes), JUDGED_AT_RANDOM)
    return [
        RatedChange(Rated(agent, version, name), (*judged, *labelled.get(name, ())))
        for name, agent, version, *judged in connection.execute(query.group_by(*key).order_by(newest.desc(), *key))
    ]


def read_judged(connection: TenantConnection, rated: Rated) -> list[JudgedScore]:
    """Return the `NEWEST` judged traces, or sessions, the newest first; of one that was judged twice its newest score.

    What people said of one is the mean of their labels, and passes at the threshold of its score.
    """
    said = (
        select(func.avg(labels.c.value))
        .where(*_RANDOM_LABELS, about(outcomes.c.subject, outcomes.c.subject_id), labels.c.name == outcomes.c.name)
        .scalar_subquery()
    )
    query = (
        select(
            outcomes.c.subject_id,
            outcomes.c.session_id,
            outcomes.c.success,
            outcomes.c.subject,
            (said >= outcomes.c.threshold).label("label"),
        )
        .where(own(outcomes), JUDGED_AT_RANDOM, *_is(rated))
        .order_by(outcomes.c.evaluated_at.desc())
        .limit(NEWEST)
    )
    found: dict[str, JudgedScore] = {}
    for row in connection.execute(query):
        subject = Subject(row.subject)
        judged = JudgedScore(row.subject_id, row.session_id, bool(row.success), row.label, subject)
        found.setdefault(row.subject_id, judged)
    return list(found.values())


def _is(rated: Rated) -> tuple[ColumnElement[bool], ...]:
    return (
        outcomes.c.name == rated.name,
        outcomes.c.agent.is_not_distinct_from(rated.agent),
        outcomes.c.service_version.is_not_distinct_from(rated.version),
    )
