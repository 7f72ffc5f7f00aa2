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
from agenteval_collector.stores.rows import JUDGED_FAILED, UNUSUAL, finding_of, finding_row
from agenteval_collector.stores.schema import JUDGED_FAILURE, data_columns, findings, outcomes, own, sessions
from otel_agenteval.finding import Finding, FindingKind, Severity

MAX_OVERDUE: Final = 500
"""The most findings without a known agent that are counted at a time."""

MAX_CERTAIN: Final = 50
"""The most findings of one trace or session that the judge is shown."""


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
    """Keeps findings, and counts those whose agent stays unknown. Thread-safe; every method raises Unavailable if
    the database refuses.

    A commit survives the process, kill -9 included. What is lost with the machine is found again by a replay of the
    log.
    """

    def __init__(self, database: TenantDatabase, outbox: OutboxStore) -> None:
        self._database = database
        self._outbox = outbox

    def keep(self, findings: Sequence[Finding], recounted: Sequence[Finding] = ()) -> News:
        """Keep the findings in traces that go on, except those that are known. Return the new ones.

        `recounted` has all loops of their kinds that were found by counting the steps of a trace as far as it has
        arrived.
        """
        both = (*findings, *recounted)
        trace_ids = {finding.trace_id for finding in both}

        def write(connection: TenantConnection) -> News:
            sums = AgentSums(connection, trace_ids)
            changes = write_findings(connection, (), findings, recounted)
            refresh_sessions(connection, changes.sessions)
            news = News(to_tell=changes.to_tell, counted=changes.counted)
            self._outbox.write(connection, news)
            sums.update_hours()
            refresh_problems(connection, changes.changed)
            sums.update_times()
            return news

        return self._database.write(trace_ids | {change.session_id for change in both}, write)

    def newest(self, limit: int) -> list[Finding]:
        """Return the newest `limit` findings that were told live, the oldest of them first."""
        query = select(*data_columns(findings)).where(own(findings), findings.c.mode.is_not(None))
        return self._read(query.order_by(findings.c.found_at.desc()).limit(limit))[::-1]

    def certain(self, *, trace_id: str | None = None, session_id: str | None = None) -> list[Finding]:
        """Return the warnings and errors of a trace or of a session, the oldest first, `MAX_CERTAIN` at most."""
        of = findings.c.trace_id == trace_id if trace_id is not None else findings.c.session_id == session_id
        query = select(*data_columns(findings)).where(own(findings), of, findings.c.severity != Severity.INFO)
        return self._read(query.order_by(findings.c.found_at).limit(MAX_CERTAIN))

    def overdue(self, before: int) -> list[Finding]:
        """Count the oldest findings from before that time (ns) whose agent is still unknown, and return them."""
        query = select(*data_columns(findings)).where(
            own(findings),
            # Written as in the condition of the index, which a database uses only for a constant.
            literal_column("findings.counted = false"),
            findings.c.found_at < before,
        )
        query = query.order_by(findings.c.found_at).limit(MAX_OVERDUE)
        # Other writers are stopped only if there is something to count.
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
    findings: Sequence[Finding] = (),
    recounted: Sequence[Finding] = (),
    revised_turns: Sequence[RevisedTurn] = (),
    compared: Sequence[Finding] = (),
) -> FindingNews:
    """Keep the findings of complete traces, and the new (`findings`) and `recounted` ones of running traces. Keep also
    what complete traces show now whose turns are revised (`revised_turns`), or that were `compared` with one that came
    late."""
    trace_ids = {finding.trace_id for finding in (*findings, *recounted, *compared)}
    trace_ids |= {trace.trace_id for trace in complete} | {trace.trace_id for trace in revised_turns}
    stored = _stored(connection, trace_ids)
    merged = dict(stored)
    for trace_id in {finding.trace_id for finding in (*findings, *recounted)}:
        merged[trace_id] = with_live(
            merged.get(trace_id, {}),
            [finding for finding in findings if finding.trace_id == trace_id],
            [finding for finding in recounted if finding.trace_id == trace_id],
        )
    for trace in complete:
        merged[trace.trace_id] = with_complete(merged.get(trace.trace_id, {}), trace)
    for trace_id in {finding.trace_id for finding in compared}:
        merged[trace_id] = with_compared(
            merged.get(trace_id, {}), [kept_finding for kept_finding in compared if kept_finding.trace_id == trace_id]
        )
    for revised_turn in revised_turns:
        merged[revised_turn.trace_id] = with_revised_turn(merged.get(revised_turn.trace_id, {}), revised_turn)
    of_session = {trace.trace_id: trace.session_id for trace in complete}
    of_session |= {turn.trace_id: turn.session_id for turn in revised_turns}
    news = _write(connection, stored, merged, of_session)
    # Problems add up what their traces took, and that may have changed even if the findings have not.
    news.changed |= {trace.trace_id for trace in complete if merged[trace.trace_id]}
    for trace in complete:
        if trace.revision == 1 and trace.in_session:
            severity = worst(kept_finding.finding.severity for kept_finding in merged[trace.trace_id].values())
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
    found = {session_id: dict.fromkeys((*Severity, FindingKind.UNUSUAL_EFFORT), 0) for session_id in session_ids}
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
        "attention": 4 * severity + JUDGED_FAILED * failed + UNUSUAL * counts[FindingKind.UNUSUAL_EFFORT],
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
            kept_finding = KeptFinding(finding_of(row), row["counted"])
            stored.setdefault(row["trace_id"], {})[row["kind"], row["span_id"], row["nth"]] = kept_finding
    return dict(stored)


def _write(
    connection: TenantConnection,
    before: Mapping[str, KeptFindings],
    after: Mapping[str, KeptFindings],
    sessions: Mapping[str, str],
) -> FindingNews:
    """Change the rows of the traces from `before` to `after`. Return what is new.

    `sessions` has those of traces whose loops may now show on other traces, or whose failed calls on other spans.
    Nobody is told of these again.
    """
    news = FindingNews()
    changed: list[Mapping[str, Any]] = []
    gone = _gone(before, after, sessions)
    for trace_id, of_trace in after.items():
        kept_before = before.get(trace_id, {})
        for key in kept_before.keys() - of_trace.keys():
            connection.delete(findings, [finding_row(kept_before[key], key[2])])
            news.sessions.add(kept_before[key].finding.session_id)
            news.changed.add(trace_id)
        for key, value in of_trace.items():
            was, now = kept_before.get(key), value
            # The rows decide: what was read from one has lists if the finding may have tuples.
            if was is not None and (was is now or finding_row(was, key[2]) == finding_row(now, key[2])):
                continue
            if was is None and (same := gone.get((now.finding.session_id, now.finding.kind))):
                # It has moved here from another trace or span: it keeps its time, and is not counted again.
                was = same.pop()
                now = KeptFinding(replace(now.finding, found_at=was.finding.found_at), was.counted or now.counted)
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
    before: Mapping[str, KeptFindings], after: Mapping[str, KeptFindings], sessions: Mapping[str, str]
) -> dict[tuple[str, str], list[KeptFinding]]:
    """Return what was told on these traces and no longer shows there, by session and kind."""
    gone: dict[tuple[str, str], list[KeptFinding]] = {}
    for trace_id, session_id in sessions.items():
        for key, value in before.get(trace_id, {}).items():
            if value.finding.mode is not None and key not in after[trace_id]:
                gone.setdefault((session_id, value.finding.kind), []).append(value)
    return gone
