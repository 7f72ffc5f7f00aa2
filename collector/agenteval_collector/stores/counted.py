"""Choose the outcomes that instruments count: each once, whatever its revisions."""

from collections.abc import Sequence
from operator import attrgetter

from sqlalchemy import literal_column, select

from agenteval_collector.model.news import CommittedEvaluation
from agenteval_collector.runtime.json_lists import among
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.rows import counts_at_once
from agenteval_collector.stores.schema import outcomes, own
from otel_agenteval.outcome import Evaluation, Subject

_COUNTED = select(
    outcomes.c.subject, outcomes.c.subject_id, outcomes.c.name, outcomes.c.method, outcomes.c.version
).where(
    own(outcomes),
    # All there are: the primary key leads from there to the ids.
    outcomes.c.subject.in_([literal_column(f"'{subject}'") for subject in Subject]),
    among(outcomes.c.subject_id, "ids"),
    outcomes.c.counted,
)


_identity = attrgetter("subject", "subject_id", "name", "method", "version")
"""Return what tells an outcome from others: the key of its row."""


def counted_before(connection: TenantConnection, evaluations: Sequence[Evaluation]) -> set[tuple[str, ...]]:
    """Return the identities among those of `evaluations` that instruments have counted already."""
    if not evaluations:
        return set()
    rows = connection.execute(_COUNTED, ids({each.subject_id for each in evaluations}))
    return {tuple(row) for row in rows}


def with_counts(evaluations: Sequence[Evaluation], known: set[tuple[str, ...]]) -> list[CommittedEvaluation]:
    """Return the evaluations, each with whether instruments count it now; those of `known` were counted before."""
    committed = []
    for each in evaluations:
        identity = _identity(each)
        counts = counts_at_once(each) and identity not in known
        committed.append(CommittedEvaluation(evaluation=each, first=counts))
        if counts:
            known.add(identity)
    return committed


def final_scores(scores: Sequence[Evaluation]) -> list[CommittedEvaluation]:
    """Return the scores of sessions that are over, which instruments count now."""
    return [CommittedEvaluation(evaluation=each, first=False, final=True) for each in scores]
