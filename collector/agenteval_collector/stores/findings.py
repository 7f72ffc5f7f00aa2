"""Findings in the store. Each is kept once, however often and by whichever component it is found."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlalchemy import Select, bindparam, case, func, literal_column, select, update

from agenteval_collector.model.commit import RevisedTurn, ScoredTrace
from agenteval_collector.model.kept_findings import (
    KeptFinding,
    KeptFindings,
    Key,
    with_compared,
    with_complete,
    with_live,
    with_revised_turn,
    worst,
)
from agenteval_collector.model.news import News, WorstFinding
from agenteval_collector.stores.access import TenantConnection, TenantDatabase, ids
from agenteval_collector.stores.agents import AgentSums
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.outbox import OutboxStore
from agenteval_collector.stores.problems import refresh_problems
from agenteval_collector.stores.rows import UNUSUAL, finding_of, finding_row
from agenteval_collector.stores.schema import JUDGED_FAILURE, data_columns, findings, outcomes, own, sessions
from otel_agenteval.finding import Finding, FindingKind, Severity

MAX_OVERDUE: Final = 500
"""The most findings without a known agent that are counted at a time."""


@dataclass(slots=True)
class FindingNews:
    """News of findings after a commit, as in `News`. `sessions` are the sessions whose findings have changed. `changed`
    are the traces whose problems may have changed."""

    to_tell: list[Finding] = field(default_factory=list)
    counted: list[Finding] = field(default_factory=list)
    traces: list[WorstFinding] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)


class FindingStore:
    """Keeps findings, and counts those whose agent stays unknown. Thread-safe; every method raises Unavailable where
    the database refuses.

    A commit survives the process, kill -9 included. What is lost with the machine is found again by a replay of the
    log.
    """

    def __init__(self, database: TenantDatabase, outbox: OutboxStore) -> None:
        self._database = database
        self._outbox = outbox

    def keep(self, found: Sequence[Finding], recounted: Sequence[Finding] = ()) -> News:
        """Keep the findings in traces that go on, except those that are known. Return the new ones.

        `recounted` has all loops of their kinds that were found by counting the steps of a trace as far as it has
        arrived.
        """
        both = (*found, *recounted)
        trace_ids = {each.trace_id for each in both}

        def write(connection: TenantConnection) -> News:
            sums = AgentSums(connection, trace_ids)
            changes = write_findings(connection, (), found, recounted)
            refresh_sessions(connection, changes.sessions)
            news = News(to_tell=changes.to_tell, counted=changes.counted)
            self._outbox.write(connection, news)
            sums.update_hours()
            refresh_problems(connection, changes.changed)
            sums.update_times()
            return news

        return self._database.write(trace_ids | {each.session_id for each in both}, write)

    def newest(self, limit: int) -> list[Finding]:
        """Return the newest `limit` findings that were told live, the oldest of them first."""
        query = select(*data_columns(findings)).where(own(findings), findings.c.mode.is_not(None))
        return self._read(query.order_by(findings.c.found_at.desc()).limit(limit))[::-1]

    def overdue(self, before: int) -> list[Finding]:
        """Count the oldest findings from before that time (ns) whose agent is still unknown, and return them."""
        query = select(*data_columns(findings)).where(
            own(findings),
            # Written as in the condition of the index, which a database uses only for a constant.
            literal_column("findings.counted = false"),
            findings.c.found_at < before,
        )
        query = query.order_by(findings.c.found_at).limit(MAX_OVERDUE)
        # Other writers are stopped only where there is something to count.
        if not self._read(query.limit(1)):
            return []
        with self._database.writing() as connection:
            rows = connection.execute(query).mappings().all()
            connection.upsert(findings, ({**row, "counted": True} for row in rows))
            refresh_problems(connection, {row["trace_id"] for row in rows})
            counted = [finding_of(row) for row in rows]
            self._outbox.write(connection, News(counted=counted))
        return counted

    def _read(self, query: Select[Any]) -> list[Finding]:
        return [*map(finding_of, self._database.mappings(query))]


def write_findings(
    connection: TenantConnection,
    complete: Sequence[ScoredTrace],
    found: Sequence[Finding] = (),
    recounted: Sequence[Finding] = (),
    revised_turns: Sequence[RevisedTurn] = (),
    compared: Sequence[Finding] = (),
) -> FindingNews:
    """Keep the findings of complete traces, and those `found` or `recounted` in running ones. Keep also what complete
    traces show now whose turns are revised (`revised_turns`), or that were `compared` with one that came late."""
    trace_ids = {each.trace_id for each in (*found, *recounted, *compared)}
    trace_ids |= {each.trace_id for each in complete} | {each.trace_id for each in revised_turns}
    stored = _stored(connection, trace_ids)
    kept = dict(stored)
    for trace_id in {each.trace_id for each in (*found, *recounted)}:
        kept[trace_id] = with_live(
            kept.get(trace_id, {}),
            [each for each in found if each.trace_id == trace_id],
            [each for each in recounted if each.trace_id == trace_id],
        )
    for trace in complete:
        kept[trace.trace_id] = with_complete(kept.get(trace.trace_id, {}), trace)
    for trace_id in {each.trace_id for each in compared}:
        kept[trace_id] = with_compared(kept.get(trace_id, {}), [each for each in compared if each.trace_id == trace_id])
    for told in revised_turns:
        kept[told.trace_id] = with_revised_turn(kept.get(told.trace_id, {}), told)
    news = _write(connection, stored, kept, {each.trace_id: each.session_id for each in revised_turns})
    # Problems add up what their traces took, and that may have changed even where the findings have not.
    news.changed |= {each.trace_id for each in complete if kept[each.trace_id]}
    for trace in complete:
        if trace.revision == 1 and trace.in_session:
            severity = worst(each.finding.severity for each in kept[trace.trace_id].values())
            whose = trace.agent, trace.service, trace.service_version, trace.environment
            news.traces.append(WorstFinding(severity, *whose))
    return news


def refresh_sessions(connection: TenantConnection, session_ids: Collection[str]) -> None:
    """Count the findings of these sessions again, and update those of the sessions that are stored."""
    for session_id, counts in count_findings(connection, session_ids).items():
        connection.execute(_REFRESH, {"of": session_id, **{f"new_{name}": count for name, count in counts.items()}})


def count_findings(connection: TenantConnection, session_ids: Collection[str]) -> dict[str, dict[str, int]]:
    """Return, for each session, the columns that say what was found in it."""
    if not session_ids:
        return {}
    params = ids(session_ids)
    found = {each: dict.fromkeys((*Severity, FindingKind.UNUSUAL_EFFORT), 0) for each in session_ids}
    for session_id, severity, count, unusual in connection.execute(_COUNTS, params):
        found[session_id][severity] = count
        found[session_id][FindingKind.UNUSUAL_EFFORT] |= unusual
    failed = set(connection.execute(_FAILED, params).scalars())
    return {session_id: _columns(counts, session_id in failed) for session_id, counts in found.items()}


def _columns(counts: dict[str, int], failed: bool) -> dict[str, int]:
    # Attention sorts by severity first, then by judged failures, then by unusual effort.
    severity = 2 if counts[Severity.ERROR] else min(1, counts[Severity.WARNING])
    return {
        "errors": counts[Severity.ERROR],
        "warnings": counts[Severity.WARNING],
        "infos": counts[Severity.INFO],
        "attention": 4 * severity + 2 * failed + UNUSUAL * counts[FindingKind.UNUSUAL_EFFORT],
    }


_REFRESH = (
    update(sessions)
    .where(own(sessions), sessions.c.session_id == bindparam("of"))
    .values({name: bindparam(f"new_{name}") for name in ("errors", "warnings", "infos", "attention")})
)
_STORED = select(*data_columns(findings)).where(own(findings), among(findings.c.trace_id, "ids"))
_COUNTS = (
    select(
        findings.c.session_id,
        findings.c.severity,
        func.count(),
        func.max(case((findings.c.kind == FindingKind.UNUSUAL_EFFORT, 1), else_=0)),
    )
    .where(own(findings), among(findings.c.session_id, "ids"))
    .group_by(findings.c.session_id, findings.c.severity)
)
_FAILED = (
    select(outcomes.c.session_id).where(own(outcomes), among(outcomes.c.session_id, "ids"), JUDGED_FAILURE).distinct()
)


def _stored(connection: TenantConnection, trace_ids: Collection[str]) -> dict[str, KeptFindings]:
    stored: dict[str, dict[Key, KeptFinding]] = {}
    if trace_ids:
        for row in connection.execute(_STORED, ids(trace_ids)).mappings():
            kept = KeptFinding(finding_of(row), row["counted"])
            stored.setdefault(row["trace_id"], {})[row["kind"], row["span_id"], row["nth"]] = kept
    return dict(stored)


def _write(
    connection: TenantConnection,
    before: Mapping[str, KeptFindings],
    after: Mapping[str, KeptFindings],
    revised_turns: Mapping[str, str],
) -> FindingNews:
    """Change the rows of the traces from `before` to `after`. Return what is new.

    `revised_turns` has the sessions of traces whose loops may now show on other traces. Nobody is told of these loops
    again.
    """
    news = FindingNews()
    changed: list[Mapping[str, Any]] = []
    gone = _gone(before, after, revised_turns)
    for trace_id, kept in after.items():
        known = before.get(trace_id, {})
        for key in known.keys() - kept.keys():
            connection.delete(findings, [finding_row(known[key], key[2])])
            news.sessions.add(known[key].finding.session_id)
            news.changed.add(trace_id)
        for key, each in kept.items():
            was, now = known.get(key), each
            # The rows decide: what was read from one has lists where the finding may have tuples.
            if was is not None and (was is now or finding_row(was, key[2]) == finding_row(now, key[2])):
                continue
            if was is None and (same := gone.get((now.finding.session_id, now.finding.kind))):
                # The loop has moved here from another trace: it keeps its time, and is not counted again.
                was = same.pop()
                now = KeptFinding(replace(now.finding, found_at=was.finding.found_at), was.counted)
            row = finding_row(now, key[2])
            changed.append(row)
            news.changed.add(trace_id)
            news.sessions |= {now.finding.session_id, *([was.finding.session_id] if was is not None else ())}
            if was is None and now.finding.mode is not None:
                news.to_tell.append(finding_of(row))
            if now.counted and not (was is not None and was.counted):
                news.counted.append(finding_of(row))
    connection.check_held(news.sessions)
    connection.upsert(findings, changed)
    return news


def _gone(
    before: Mapping[str, KeptFindings], after: Mapping[str, KeptFindings], revised_turns: Mapping[str, str]
) -> dict[tuple[str, str], list[KeptFinding]]:
    """Return loops that were told on these traces and no longer show there, by session and kind."""
    gone: dict[tuple[str, str], list[KeptFinding]] = {}
    for trace_id, session_id in revised_turns.items():
        for key, kept in before.get(trace_id, {}).items():
            if kept.finding.mode is not None and key not in after[trace_id]:
                gone.setdefault((session_id, kept.finding.kind), []).append(kept)
    return gone
