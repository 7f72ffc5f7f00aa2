"""Mark the outcomes of sessions as counted, once each."""

from collections.abc import Sequence

from sqlalchemy import and_, bindparam, literal_column, select, update

from agenteval_collector.model.judging import waits_for_judge
from agenteval_collector.runtime.json_lists import among
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.rows import evaluation_of
from agenteval_collector.stores.schema import outcomes, own, sessions
from otel_agenteval.outcome import Evaluation, Method, Status, Subject

_UNCOUNTED_SESSIONS = (
    select(outcomes)
    .join(sessions, and_(sessions.c.tenant == outcomes.c.tenant, sessions.c.session_id == outcomes.c.subject_id))
    .where(
        own(outcomes),
        outcomes.c.subject == literal_column(f"'{Subject.SESSION}'"),
        among(outcomes.c.subject_id, "ids"),
        ~outcomes.c.counted,
        sessions.c.finalized_at.is_not(None),
    )
)
_COUNT_SESSION = (
    update(outcomes)
    .where(
        own(outcomes),
        outcomes.c.subject == literal_column(f"'{Subject.SESSION}'"),
        outcomes.c.subject_id == bindparam("session"),
        outcomes.c.name == bindparam("evaluator"),
    )
    .values(counted=True)
)


def count_sessions(connection: TenantConnection, session_ids: Sequence[str]) -> list[Evaluation]:
    """Mark as counted the scores of those sessions that are over and wait for no judgement. Returns the new ones."""
    rows = connection.execute(_UNCOUNTED_SESSIONS, ids(session_ids)).mappings().all()
    uncounted = [evaluation_of(row) for row in rows]
    # What waits for the judge itself holds up no other outcome of its session.
    scores = [each for each in uncounted if each.outcome.status is not Status.PENDING or each.method is not Method.LLM]
    waiting = {each.subject_id for each in scores if waits_for_judge(each.outcome)}
    counted = [each for each in scores if each.subject_id not in waiting or each.method is Method.LLM]
    for each in counted:
        connection.execute(_COUNT_SESSION, {"session": each.subject_id, "evaluator": each.name})
    return counted
