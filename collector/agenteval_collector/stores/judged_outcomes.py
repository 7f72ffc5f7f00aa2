"""Read the outcomes that wait for the judge, the outcomes that it has scored, and the outcomes that it could not
score."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, Final, TypeAlias

from sqlalchemy import ColumnElement, Select, TextClause, and_, exists, func, literal_column, or_, select

from agenteval_collector.model.judge_jobs import GOAL_SUCCESS, JudgeJob, job_of
from agenteval_collector.model.sessions import SessionState
from agenteval_collector.stores.access import TenantConnection, TenantDatabase, ids
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.rows import evaluation_of, session_state
from agenteval_collector.stores.schema import JUDGED_FAILED, matching, outcomes, own, sessions, traces
from agenteval_collector.stores.unasked import read_unasked
from otel_agenteval.outcome import Evaluation, JudgedPart, Method, Status, SubjectKind

_Conditions: TypeAlias = Sequence[ColumnElement[bool] | TextClause]

_OF_JUDGE = (own(outcomes), outcomes.c.subject == SubjectKind.TRACE, outcomes.c.method == Method.LLM)
_NEWEST = and_(matching(traces, outcomes, "trace_id", "subject_id"), traces.c.revision == outcomes.c.revision)
_OF_SESSION = matching(sessions, outcomes, "session_id", "subject_id")
_NEWEST_SESSION = and_(_OF_SESSION, sessions.c.revision == outcomes.c.revision)
_GOAL = and_(_OF_SESSION, outcomes.c.subject == SubjectKind.SESSION, outcomes.c.name == GOAL_SUCCESS)
_NEWEST_GOAL = and_(_GOAL, outcomes.c.revision == sessions.c.revision)
_LEFT_OUT: Final = (Status.FAILED, Status.OVER_BUDGET, Status.SAMPLED_OUT, Status.NO_JUDGE)


SCORED: Final = outcomes.c.status == Status.SCORED
NOT_ESCALATED: Final = or_(outcomes.c.part.is_(None), outcomes.c.part != JudgedPart.ESCALATED)
"""The condition that leaves out outcomes of traces that were judged because of what was found in them."""


class JudgedStore:
    """The judge's outcomes, by trace or session. Safe from any thread; raises Unavailable."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def left_out(self, trace_ids: Sequence[str], session_ids: Sequence[str], limit: int) -> list[list[Evaluation]]:
        """Return the outcomes of these traces and sessions that the judge has not scored, but still could."""
        left_out = [outcomes.c.status.in_(_LEFT_OUT)]
        in_sessions = [sessions.c.session_id.in_(session_ids), *left_out]
        with self._database.reading() as connection:
            unasked = _unasked(connection, trace_ids, limit)
        found = self._with_goals([traces.c.trace_id.in_(trace_ids)], left_out, in_sessions, limit)
        for evaluations in found:
            evaluations.extend(unasked.pop(evaluations[0].subject_id, ()))
        return [*unasked.values(), *found][:limit]

    def failed_since(self, time: int, limit: int) -> list[list[Evaluation]]:
        """Return the outcomes that failed, or had no budget, since that time (ns): those of the newest traces, then
        those of sessions."""
        failed: _Conditions = [JUDGED_FAILED, outcomes.c.evaluated_at >= time]
        return self._with_goals([], failed, failed, limit)

    def _with_goals(
        self, of_trace: _Conditions, of_outcome: _Conditions, of_goal: _Conditions, limit: int
    ) -> list[list[Evaluation]]:
        """Return judged outcomes by trace. After them come the outcomes about the goals of sessions that have not gone
        on since, the newest first."""
        with self._database.reading() as connection:
            evaluations = read_judged(connection, of_trace, of_outcome, limit)
            query = select(outcomes).join(sessions, _NEWEST_GOAL).where(own(outcomes), *of_goal)
            query = query.order_by(outcomes.c.evaluated_at.desc()).limit(limit - len(evaluations))
            return [*evaluations, *([evaluation_of(row)] for row in connection.execute(query).mappings())]


def _unasked(connection: TenantConnection, trace_ids: Sequence[str], limit: int) -> dict[str, list[Evaluation]]:
    """Return the outcomes without a judge of at most `limit` of these traces, by trace."""
    of_traces = outcomes.c.subject_id.in_(trace_ids)
    rows = [*map(evaluation_of, connection.execute(select(outcomes).where(*_OF_JUDGE, of_traces)).mappings())]
    by_trace: dict[str, list[Evaluation]] = {}
    for evaluation in read_unasked(connection, [traces.c.trace_id.in_(trace_ids)], rows, {}):
        if evaluation.outcome.status is Status.NO_JUDGE:
            by_trace.setdefault(evaluation.subject_id, []).append(evaluation)
    return dict(islice(by_trace.items(), limit))


def read_pending(
    connection: TenantConnection,
    *,
    before: int,
    after: str = "",
    limit: int = 64,
    subject: SubjectKind = SubjectKind.TRACE,
) -> list[JudgeJob]:
    """Return the newest revisions that have waited for the judge since before that time (ns). They are sorted by id,
    and begin after the id `after`."""
    table, newest = (sessions, _NEWEST_SESSION) if subject is SubjectKind.SESSION else (traces, _NEWEST)
    waiting: tuple[ColumnElement[bool], ...] = (
        own(outcomes),
        outcomes.c.subject == subject,
        outcomes.c.method == Method.LLM,
        # Written as in the condition of the index of pending outcomes, which SQLite uses only for a constant.
        literal_column("outcomes.status = 'pending'"),
        outcomes.c.evaluated_at < before,
    )
    some = select(outcomes.c.subject_id).distinct().join(table, newest)
    some = some.where(*waiting, outcomes.c.subject_id > after).order_by(outcomes.c.subject_id).limit(limit)
    query = select(outcomes).join(table, newest).where(*waiting, outcomes.c.subject_id.in_(some))
    query = query.order_by(outcomes.c.subject_id)
    return [job_of(pending) for pending in _by_trace(connection.execute(query).mappings().all())]


def read_parts(connection: TenantConnection, session_id: str) -> frozenset[JudgedPart | None]:
    """Return the parts of the sample that the session's traces belong to. None stands for traces that were sampled
    out."""
    query = select(outcomes.c.part).where(
        *_OF_JUDGE,
        outcomes.c.session_id == session_id,
        or_(outcomes.c.part.is_not(None), outcomes.c.status == Status.SAMPLED_OUT),
    )
    return frozenset(scalar and JudgedPart(scalar) for scalar in connection.execute(query.distinct()).scalars())


def read_sampled_out(connection: TenantConnection, session_id: str, limit: int) -> list[list[Evaluation]]:
    """Return the sampled-out outcomes of a session by trace, for its `limit` newest traces that have any."""
    of_session, sampled_out = traces.c.session_id == session_id, outcomes.c.status == Status.SAMPLED_OUT
    return read_judged(connection, [of_session], [sampled_out], limit)


def read_judged(
    connection: TenantConnection,
    of_trace: _Conditions,
    of_outcome: _Conditions,
    limit: int,
    *,
    newest: ColumnElement[int] = traces.c.started_at,
) -> list[list[Evaluation]]:
    """Return judged outcomes by trace, of the newest `limit` of these traces that have any.

    `newest` is `CAME` if the conditions may fit most of all traces. Then no more traces are looked at than
    necessary.
    """
    # Begins with the traces: to group outcomes, SQLite would walk those of all traces.
    some = select(traces.c.trace_id).where(own(traces), *of_trace, exists().where(_NEWEST, *_OF_JUDGE, *of_outcome))
    some = some.order_by(newest.desc()).limit(limit)
    query = select(outcomes).where(*_OF_JUDGE, *of_outcome, outcomes.c.subject_id.in_(some))
    query = query.order_by(outcomes.c.subject_id)
    return list(_by_trace(connection.execute(query).mappings().all()))


def _by_trace(rows: Iterable[Mapping[Any, Any]]) -> Iterable[list[Evaluation]]:
    for _, of_subject in groupby((evaluation_of(row) for row in rows), key=lambda evaluation: evaluation.subject_id):
        yield list(of_subject)


def read_without_goal(connection: TenantConnection, session_ids: Sequence[str]) -> list[SessionState]:
    """Return those of the sessions about which the judge was not asked since something was last said in them."""
    query = select(sessions).where(own(sessions), among(sessions.c.session_id, "ids"), ~exists().where(_NEWEST_GOAL))
    return [session_state(row) for row in connection.execute(query, ids(session_ids)).mappings()]


def gone_on() -> Select[tuple[str]]:
    """Make the query for the sessions that were over once, and have gone on since something was said of their goal."""
    return (
        select(sessions.c.session_id)
        .join(outcomes, _GOAL)
        .where(own(sessions), sessions.c.finalized_at.is_not(None))
        .group_by(sessions.c.session_id)
        .having(func.max(outcomes.c.revision) < func.max(sessions.c.revision))
    )


def read_live_sessions(connection: TenantConnection) -> list[str]:
    """Return the ids of the sessions that were not over yet, or have gone on since they were judged."""
    query = select(sessions.c.session_id).where(own(sessions), sessions.c.finalized_at.is_(None))
    return [*connection.execute(query).scalars(), *connection.execute(gone_on()).scalars()]
