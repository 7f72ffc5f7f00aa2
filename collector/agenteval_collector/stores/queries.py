"""The reading side of the store: the documents of docs/api.md."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Engine, Row, select

from agenteval_collector.model.documents import Document, Page
from agenteval_collector.model.rendering import (
    exchange_document,
    outcome_document,
    rfc3339,
    with_copies,
    with_outcomes,
    with_trouble,
)
from agenteval_collector.model.running import RunningTrace
from agenteval_collector.model.session_filter import EVERY_SESSION, Order, SessionFilter
from agenteval_collector.reliability import ReliabilityReports
from agenteval_collector.reliability.conversations import interactions_document, trend_document
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores.access import snapshot
from agenteval_collector.stores.conversations import second_records
from agenteval_collector.stores.found import (
    MAX_LISTED,
    flagged_traces,
    found_in_sessions,
    found_in_trace,
    judged_failures,
)
from agenteval_collector.stores.hit_rate import read_hit_rate
from agenteval_collector.stores.judging import read_exchanges
from agenteval_collector.stores.labels import read_agreement, read_labels
from agenteval_collector.stores.running import (
    NOTHING_COMPLETE,
    by_session,
    read_deaths,
    read_told,
    running_document,
    stop_reason,
    unknown_sessions,
)
from agenteval_collector.stores.schema import OF_TRACE, outcomes, sessions, trace_documents, traces
from agenteval_collector.stores.session_list import cursor_after, may_be_wanted, read_sessions
from agenteval_collector.stores.store import TENANT
from otel_agenteval.metrics import SIGNAL_NAMES
from otel_agenteval.outcome import Subject

COMPLETED, CORRECT = "task_completion", "tool_use_correctness"
ATTENTION = ("none", "info", "warning", "error")
"""Worst findings, the last to be looked at first."""


class StoreQueries:
    """`Queries` on the store's file, by `engine`, whose readers never wait for the writer. Raises Unavailable.

    `running` gives the document of a trace that is not complete yet, `running_traces` all that are, `open_spans` the
    spans of a trace that have begun and not ended, with why they will not end. `idle` is the time in seconds without
    a trace after which a session is idle, `judge_trouble` says what is wrong with the judge now.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        idle: float,
        reliability: ReliabilityReports,
        running: Callable[[str], Document | None] = lambda _trace_id: None,
        running_traces: Callable[[], Sequence[RunningTrace]] = tuple,
        open_spans: Callable[[str], tuple[list[Document], str | None]] = lambda _trace_id: ([], None),
        judge_trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._running = running
        self._running_traces = running_traces
        self._open_spans = open_spans
        self._judge_trouble = judge_trouble
        self._idle = round(idle * 1e9)
        self._reliability = reliability

    def trace(self, trace_id: str) -> Document | None:
        # In this order: what is not running any more by the second look is stored by then.
        running = self._running(trace_id)
        open_spans, reason = self._open_spans(trace_id)
        with snapshot(self._engine) as connection:
            live = found_in_trace(connection, TENANT, trace_id)
            if open_spans:
                live |= {"open_spans": open_spans, "status_reason": reason}
            query = (
                select(trace_documents.c.document, traces.c.revised, traces.c.revision, traces.c.session_id)
                .join_from(traces, trace_documents, OF_TRACE)
                .where(traces.c.tenant == TENANT, traces.c.trace_id == trace_id)
            )
            stored = connection.execute(query).first()
            if stored is None or (running is not None and stored.revision < running["revision"]):
                known = read_told(connection, TENANT, trace_id) if running is None else running
                return None if known is None else {**known, **live}
            outcomes_of = self._outcomes(connection, Subject.TRACE, [trace_id])
            labels = read_labels(connection, TENANT, trace_id)
            trace = with_copies(json.loads(stored.document)) | json.loads(stored.revised)
            document = with_outcomes(trace, outcomes_of[trace_id], labels)
            # It was complete as far as was known, and goes on: until it is complete again its scores are provisional.
            going_on = {"status": "running", "complete": False} if open_spans and reason is None else {}
            # It may have moved to another session since.
            return {**document, "session_id": stored.session_id, **live, **going_on}

    def judgements(self, trace_id: str) -> list[Document] | None:
        with snapshot(self._engine) as connection:
            exchanges = read_exchanges(connection, TENANT, trace_id)
        if not exchanges and self.trace(trace_id) is None:
            return None
        return [exchange_document(exchange) for exchange in exchanges]

    def agreement(self, *, name: str | None = None) -> list[Document]:
        with snapshot(self._engine) as connection:
            return read_agreement(connection, TENANT, name)

    def session(self, session_id: str) -> Document | None:
        running = by_session(self._running_traces()).get(session_id, [])
        with snapshot(self._engine) as connection:
            query = select(sessions).where(sessions.c.tenant == TENANT, sessions.c.session_id == session_id)
            row = connection.execute(query).first()
            found = found_in_sessions(connection, TENANT, {session_id: running})[session_id]
            if row is None:
                if not running:
                    return None
                document = running_document(session_id, running, found, last_seen_at=self._clock.now())
                del document["trace_count"]
                return {**document, **NOTHING_COMPLETE}
            members = connection.execute(
                select(traces.c.trace_id, traces.c.continues_turn)
                .where(traces.c.tenant == TENANT, traces.c.session_id == session_id)
                .order_by(traces.c.started_at, traces.c.trace_id)
            ).all()
            again = second_records(connection, TENANT, session_id)
            scores = _scores(connection, session_id, (*SIGNAL_NAMES, COMPLETED, CORRECT))
            signals: dict[str, dict[str, float]] = {member.trace_id: {} for member in members}
            for name in SIGNAL_NAMES:
                for trace_id, score in scores[name].items():
                    signals.setdefault(trace_id, {})[name] = score
            document = self._session(row, running, read_deaths(connection, TENANT, [session_id], running))
            del document["trace_count"]
            completed, correct = scores[COMPLETED], scores[CORRECT]
            ids = [member.trace_id for member in members]
            return {
                **document,
                "trace_ids": ids,
                "turn_traces": _by_turn(
                    (each.trace_id, each.continues_turn or each.trace_id in again) for each in members
                ),
                "outcomes": self._outcomes(connection, Subject.SESSION, [session_id])[session_id],
                "signals": signals,
                "flagged_traces": flagged_traces(connection, TENANT, [session_id])[session_id],
                "judged_failures": judged_failures(connection, TENANT, [session_id])[session_id],
                "trend": trend_document([completed.get(trace_id) for trace_id in ids]),
                "interactions": interactions_document([correct[each] for each in ids if each in correct]),
                **found,
            }

    def sessions(self, wanted: SessionFilter = EVERY_SESSION, *, limit: int = 50, cursor: str | None = None) -> Page:
        running = by_session(self._running_traces())
        with snapshot(self._engine) as connection:
            # They are newer than all others, and become those when their first trace is complete.
            new = self._unknown(connection, wanted, running)[:limit] if cursor is None else []
            room = limit - len(new)
            rows = read_sessions(connection, TENANT, wanted, cursor, room + 1)
            more, rows = len(rows) > room, rows[:room]
            ids = [row.session_id for row in rows]
            deaths = read_deaths(connection, TENANT, ids, chain.from_iterable(running.values()))
            scores = self._outcomes(connection, Subject.SESSION, ids)
            flagged = flagged_traces(connection, TENANT, ids)
            failures = judged_failures(connection, TENANT, ids)
            found = found_in_sessions(
                connection, TENANT, {each: running.get(each, ()) for each in ids}, limit=MAX_LISTED
            )
        items = new + [
            {
                **self._session(row, running.get(row.session_id, []), deaths),
                "outcomes": scores[row.session_id],
                "flagged_traces": flagged[row.session_id],
                "judged_failures": failures[row.session_id],
                **found[row.session_id],
            }
            for row in rows
        ]
        if wanted.order is Order.ATTENTION and new:
            items.sort(key=lambda item: ATTENTION.index(item["worst"]), reverse=True)
        next_cursor = cursor_after(rows[-1] if rows else None, wanted.order) if more else None
        return Page(items=items, next_cursor=next_cursor)

    def hit_rate(self, agent: str) -> Document | None:
        with snapshot(self._engine) as connection:
            return read_hit_rate(connection, TENANT, agent)

    def _unknown(
        self, connection: Connection, wanted: SessionFilter, running: Mapping[str, Sequence[RunningTrace]]
    ) -> list[Document]:
        """The wanted sessions of which nothing is stored, as items of the listing, the newest first."""
        candidates = {each: traces for each, traces in running.items() if may_be_wanted(wanted, traces)}
        ids = unknown_sessions(connection, TENANT, candidates)
        found = found_in_sessions(connection, TENANT, {each: running[each] for each in ids})
        items = [running_document(each, running[each], found[each], last_seen_at=self._clock.now()) for each in ids]
        return [item for item in items if _shows(item, wanted)]

    def reliability(
        self,
        *,
        agent: str | None = None,
        version: str | None = None,
        variant: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        return self._reliability.page(agent=agent, version=version, variant=variant, limit=limit, cursor=cursor)

    def reliability_comparison(
        self, before: str, after: str, *, agent: str | None = None, variant: str | None = None
    ) -> Document:
        return self._reliability.comparison(before, after, agent=agent, variant=variant)

    def _outcomes(self, connection: Connection, subject: Subject, ids: Sequence[str]) -> Mapping[str, list[Document]]:
        trouble = self._judge_trouble()
        found: dict[str, list[Document]] = {subject_id: [] for subject_id in ids}
        query = (
            select(outcomes)
            .where(outcomes.c.tenant == TENANT, outcomes.c.subject == subject, outcomes.c.subject_id.in_(ids))
            .order_by(outcomes.c.name, outcomes.c.method, outcomes.c.version)
        )
        for row in connection.execute(query).mappings():
            found[row["subject_id"]].append(with_trouble(outcome_document(row), trouble))  # type: ignore[arg-type]
        return found

    def _session(self, row: Row[Any], running: Sequence[RunningTrace], deaths: Mapping[str, str]) -> Document:
        return {
            "session_id": row.session_id,
            "user_id": row.user_id,
            # The spans that have arrived may name no agent, while those that still run do.
            "agent": row.agent or next((trace.agent for trace in running if trace.agent), None),
            "services": json.loads(row.services),
            "versions": json.loads(row.versions),
            "status": "running" if running else self._status(row),
            "status_reason": stop_reason(running) or deaths.get(row.session_id),
            "started_at": rfc3339(row.started_at),
            "last_seen_at": rfc3339(row.last_seen_at),
            "trace_count": row.trace_count,
            "blind": row.blind,
            "running_traces": [trace.trace_id for trace in running],
        }

    def _status(self, row: Row[Any]) -> str:
        if row.ended_at is not None and row.ended_at >= row.last_seen_at:
            return "ended"
        return "idle" if self._clock.now() - row.last_seen_at >= self._idle else "active"


def _scores(connection: Connection, session_id: str, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """By name, the score of each trace of a session that has one; of several versions the newest."""
    query = select(outcomes.c.name, outcomes.c.subject_id, outcomes.c.score).where(
        outcomes.c.tenant == TENANT,
        outcomes.c.session_id == session_id,
        outcomes.c.subject == Subject.TRACE,
        outcomes.c.name.in_(names),
    )
    found: dict[str, dict[str, float | None]] = {name: {} for name in names}
    for row in connection.execute(query.order_by(outcomes.c.evaluated_at)):
        found[row.name][row.subject_id] = row.score
    return {
        name: {trace_id: score for trace_id, score in scores.items() if score is not None}
        for name, scores in found.items()
    }


def _shows(item: Document, wanted: SessionFilter) -> bool:
    """Whether a session of which nothing is stored shows the wanted finding."""
    if wanted.finding is None and wanted.severity is None:
        return True
    return any(
        wanted.finding in (None, each["kind"]) and wanted.severity in (None, each["severity"])
        for each in item["findings"]
    )


def _by_turn(members: Iterable[tuple[str, bool]]) -> list[list[str]]:
    """The ids of a session's traces, those of one turn together; by start, each with whether it continues a turn."""
    turns: list[list[str]] = []
    for trace_id, continues_turn in members:
        if continues_turn and turns:
            turns[-1].append(trace_id)
        else:
            turns.append([trace_id])
    return turns
