"""Read the findings of traces and of sessions, and which traces they flag."""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Final

from sqlalchemy import Column, Select, bindparam, case, func, select, union

from agenteval_collector.model.kept_findings import SEVERITIES
from agenteval_collector.model.shown_findings import MAX_SHOWN, ShownFindings
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.rows import KEY_OF_FINDING, finding_of
from agenteval_collector.stores.schema import JUDGED_FAILURE, findings, outcomes, own, traces
from otel_agenteval.finding import Severity

_RANK: Final = case({severity: rank for rank, severity in enumerate(reversed(SEVERITIES))}, value=findings.c.severity)
_WORST_FIRST: Final = (_RANK, findings.c.found_at.desc(), findings.c.trace_id, findings.c.kind, findings.c.nth)


def found_in_traces(connection: TenantConnection, trace_ids: Collection[str]) -> dict[str, ShownFindings]:
    """Return the findings of these traces."""
    return _found(connection, findings.c.trace_id, {trace_id: trace_id for trace_id in trace_ids}, MAX_SHOWN)


def found_in_sessions(
    connection: TenantConnection, running: Mapping[str, Collection[str]], limit: int = MAX_SHOWN
) -> dict[str, ShownFindings]:
    """Return the findings of these sessions, at most `limit` of each. `running` has the traces of each session that are
    not complete. The findings of such a trace may not name their session yet."""
    owners = {trace_id: session_id for session_id, trace_ids in running.items() for trace_id in trace_ids}
    return _found(connection, findings.c.session_id, owners | {subject_id: subject_id for subject_id in running}, limit)


def flagged_traces(connection: TenantConnection, session_ids: Collection[str]) -> dict[str, list[str]]:
    """Return the traces of each session that have a finding of severity error, or a judge's score below its
    threshold."""
    flagged: dict[str, list[str]] = {session_id: [] for session_id in session_ids}
    found = select(findings.c.trace_id).where(
        own(findings), among(findings.c.session_id, "ids"), findings.c.severity == Severity.ERROR
    )
    judged = select(outcomes.c.subject_id).where(own(outcomes), among(outcomes.c.session_id, "ids"), JUDGED_FAILURE)
    query = select(traces.c.session_id, traces.c.trace_id).where(
        own(traces), traces.c.trace_id.in_(union(found, judged)), among(traces.c.session_id, "ids")
    )
    query = query.order_by(traces.c.started_at, traces.c.trace_id)
    for session_id, trace_id in connection.execute(query, ids(session_ids)):
        flagged[session_id].append(trace_id)
    return flagged


def judged_failures(connection: TenantConnection, session_ids: Collection[str]) -> dict[str, int]:
    """Count the judge's scores below their threshold, by session."""
    query = select(outcomes.c.session_id, func.count()).where(
        own(outcomes), among(outcomes.c.session_id, "ids"), JUDGED_FAILURE
    )
    counts = connection.execute(query.group_by(outcomes.c.session_id), ids(session_ids))
    return dict.fromkeys(session_ids, 0) | dict(map(tuple, counts))


def _found(
    connection: TenantConnection, column: Column[str], owners: Mapping[str, str], limit: int
) -> dict[str, ShownFindings]:
    """Return the findings of each owner. `owners` has the owner of each value of `column`."""
    counts = {owner: dict.fromkeys(Severity, 0) for owner in owners.values()}
    by_owner: dict[str, list[Mapping[Any, Any]]] = {owner: [] for owner in owners.values()}
    counted, placed = _statements(column)
    values = ids(owners)
    rows_counted = connection.execute(counted, values).all()
    for value, severity, count in rows_counted:
        counts[owners[value]][severity] += count
    if rows_counted:
        for row in connection.execute(placed, {**values, "limit": limit}).mappings():
            by_owner[owners[row[column.name]]].append(row)
    by_subject = {}
    for owner, rows in by_owner.items():
        worst = sorted(rows, key=lambda row: (-SEVERITIES.index(row["severity"]), -row["found_at"]))[:limit]
        shown = connection.readable(findings, sorted(worst, key=_by_time), finding_of, key=KEY_OF_FINDING)
        by_subject[owner] = ShownFindings(shown, counts[owner])
    return by_subject


@cache
def _statements(column: Column[str]) -> tuple[Select[Any], Select[Any]]:
    """Return the statement that counts the findings by `column`, and the one that reads the worst of each. They are
    made once: making them costs more than running them."""
    are_own = own(findings), among(column, "ids")
    counted = select(column, findings.c.severity, func.count()).where(*are_own).group_by(column, findings.c.severity)
    rank = func.row_number().over(partition_by=column, order_by=_WORST_FIRST).label("place")
    placed = select(findings, rank).where(*are_own).subquery()
    return counted, select(placed).where(placed.c.place <= bindparam("limit"))


def _by_time(row: Mapping[Any, Any]) -> tuple[Any, ...]:
    turn = -1 if row["turn"] is None else row["turn"]
    return row["found_at"], row["trace_id"], turn, row["kind"], row["span_id"], row["nth"]
