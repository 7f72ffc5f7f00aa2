"""Choose the outcomes that instruments count: each once, whatever its revisions."""

from collections.abc import Sequence
from operator import attrgetter

from sqlalchemy import and_, bindparam, literal_column, select, update

from agenteval_collector.model.judging import waits_for_judge
from agenteval_collector.model.news import CommittedEvaluation
from agenteval_collector.runtime.json_lists import among
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.rows import counts_at_once, evaluation_of
from agenteval_collector.stores.schema import outcomes, own, sessions
from otel_agenteval.outcome import Evaluation, Method, Status, Subject

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


_OF_SESSION = own(outcomes), outcomes.c.subject == literal_column(f"'{Subject.SESSION}'")
_UNCOUNTED_SESSIONS = (
    select(outcomes)
    .join(sessions, and_(sessions.c.tenant == outcomes.c.tenant, sessions.c.session_id == outcomes.c.subject_id))
    .where(*_OF_SESSION, among(outcomes.c.subject_id, "ids"), ~outcomes.c.counted, sessions.c.finalized_at.is_not(None))
)
_COUNT_SESSION = (
    update(outcomes)
    .where(*_OF_SESSION, outcomes.c.subject_id == bindparam("session"), outcomes.c.name == bindparam("evaluator"))
    .values(counted=True)
)


def count_sessions(connection: TenantConnection, session_ids: Sequence[str]) -> list[CommittedEvaluation]:
    """Mark as counted the scores of those sessions that are over and wait for no judgement. Returns the new ones."""
    uncounted = [*map(evaluation_of, connection.execute(_UNCOUNTED_SESSIONS, ids(session_ids)).mappings())]
    # What waits for the judge itself holds up no other outcome of its session.
    scores = [each for each in uncounted if each.outcome.status is not Status.PENDING or each.method is not Method.LLM]
    waiting = {each.subject_id for each in scores if waits_for_judge(each.outcome)}
    counted = [each for each in scores if each.subject_id not in waiting or each.method is Method.LLM]
    for each in counted:
        connection.execute(_COUNT_SESSION, {"session": each.subject_id, "evaluator": each.name})
    return [CommittedEvaluation(evaluation=each, first=False, final=True) for each in counted]
