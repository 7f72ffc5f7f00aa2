"""Read the ids of stored traces for a listing, the newest first."""

from collections.abc import Iterator

from sqlalchemy import ColumnElement, Table, exists, literal, select

from agenteval_collector.model.cursors import Page
from agenteval_collector.model.labels import PASSING, LabelVerdict
from agenteval_collector.model.session_filter import TraceFilter
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.json_lists import listed
from agenteval_collector.stores.paging import read_page
from agenteval_collector.stores.schema import (
    findings,
    labels,
    matching,
    outcomes,
    own,
    problem_traces,
    sessions,
    traces,
)
from agenteval_collector.stores.session_list import said_in
from otel_agenteval.outcome import SubjectKind


def read_trace_ids(connection: TenantConnection, wanted: TraceFilter, cursor: str | None, limit: int) -> Page[str]:
    """Return the ids of at most `limit` traces from where the cursor points, the newest first by their start. Raises
    InvalidRequest for a cursor of another listing."""
    columns = traces.c.started_at, traces.c.trace_id
    query = select(*columns).where(own(traces), *_conditions(connection, wanted))
    return read_page(connection, query, columns, limit=limit, cursor=cursor).map(lambda row: str(row["trace_id"]))


def _conditions(connection: TenantConnection, wanted: TraceFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.agent is not None:
        yield traces.c.agent == wanted.agent
        if wanted.service is not None:
            yield traces.c.service == wanted.service
    if wanted.version is not None:
        yield traces.c.service_version == wanted.version
    if wanted.since is not None:
        yield traces.c.started_at >= wanted.since
    if wanted.until is not None:
        yield traces.c.started_at < wanted.until
    of_session = [*_session_conditions(wanted)]
    if of_session:
        yield exists(select(literal(1)).where(matching(sessions, traces, "session_id"), *of_session))
    if wanted.finding is not None or wanted.severity is not None:
        filters = {findings.c.kind: wanted.finding, findings.c.severity: wanted.severity}
        yield _has(findings, *(column == value for column, value in filters.items() if value is not None))
    if wanted.below is not None:
        of_trace = outcomes.c.subject == SubjectKind.TRACE.value, outcomes.c.subject_id == traces.c.trace_id
        # By the session first: the index of outcomes by session has name and score.
        yield exists(
            select(literal(1)).where(
                matching(outcomes, traces, "session_id"),
                *of_trace,
                outcomes.c.name == wanted.below.name,
                outcomes.c.score < wanted.below.value,
            )
        )
    if wanted.text is not None:
        yield said_in(connection, wanted.text)[0]
    if wanted.problem is not None:
        yield _has(problem_traces, problem_traces.c.problem_id == wanted.problem)
    if wanted.label is not None:
        passes = labels.c.value >= PASSING
        yield _has(labels, passes if wanted.label is LabelVerdict.PASS else ~passes)


def _session_conditions(wanted: TraceFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.user is not None:
        yield sessions.c.user_id == wanted.user
    if wanted.environment is not None:
        yield sessions.c.environment == wanted.environment
    if wanted.service is not None and wanted.agent is None:
        names = listed(sessions.c.services)
        yield exists(select(literal(1)).select_from(names).where(names.c.value == wanted.service))


def _has(table: Table, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Make the condition that `table` has a row of the trace that fulfils the `conditions`."""
    return exists(select(literal(1)).where(matching(table, traces, "trace_id"), *conditions))
