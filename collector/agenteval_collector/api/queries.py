"""Answer queries: the documents of docs/api.md, from what is stored and from what is running."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from agenteval_collector.api.documents import (
    AgreementDocument,
    ComparisonDocument,
    ExchangeDocument,
    HitRateDocument,
    OutcomeDocument,
    ReliabilityDocument,
    SessionDocument,
    SessionFields,
    SessionItem,
    SessionStatus,
    TraceDocument,
)
from agenteval_collector.api.figures import (
    agreement_document,
    hit_rate_document,
    interactions_document,
    trend_document,
)
from agenteval_collector.api.ports import JudgeState, Records, RecordSnapshot, RunningTraces
from agenteval_collector.api.reliability import comparison_document, reliability_document
from agenteval_collector.api.rendering import (
    exchange_document,
    found_document,
    open_span_documents,
    outcome_document,
    trace_document,
)
from agenteval_collector.api.running import (
    by_session,
    death_reasons,
    may_be_wanted,
    running_fields,
    shows,
    stop_reason,
    told_view,
    trace_ids,
)
from agenteval_collector.findings.hit_rate import hit_rate
from agenteval_collector.model.cursors import Page
from agenteval_collector.model.found import MAX_LISTED, Found
from agenteval_collector.model.running import RunningTrace
from agenteval_collector.model.session_filter import EVERY_SESSION, Order, SessionFilter
from agenteval_collector.model.sessions import SessionRecord
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.reliability import ReliabilityReports
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.times import rfc3339
from otel_agenteval.metrics import SIGNAL_NAMES
from otel_agenteval.outcome import Subject

COMPLETED: Final = "task_completion"
CORRECT: Final = "tool_use_correctness"
ATTENTION: Final = ("none", "info", "warning", "error")
"""The severities of a session's worst finding; the last is to be looked at first."""


class StoreQueries:
    """`Queries` on what is stored and what is running. Raises Unavailable where the store does.

    `idle` is the time in seconds without a trace after which a session is idle.
    """

    def __init__(
        self,
        records: Records,
        clock: Clock,
        *,
        idle: float,
        reliability: ReliabilityReports,
        running: RunningTraces,
        judge: JudgeState,
    ) -> None:
        self._records = records
        self._clock = clock
        self._running = running
        self._judge = judge
        self._idle = round(idle * 1e9)
        self._reliability = reliability

    def trace(self, trace_id: str) -> TraceDocument | None:
        # In this order: what is not running any more by the second look is stored by then.
        running = self._running.trace(trace_id)
        open_spans, reason = self._running.open_spans(trace_id)
        with self._records.snapshot() as records:
            document = self._trace(records, trace_id, running)
        if document is not None and open_spans:
            document |= {"open_spans": open_span_documents(open_spans), "status_reason": reason}
            if reason is None:
                # It was complete as far as was known, and goes on: until it is complete again its scores are
                # provisional.
                document |= {"status": "running", "complete": False}
        return document

    def _trace(self, records: RecordSnapshot, trace_id: str, running: TraceView | None) -> TraceDocument | None:
        found, stored = records.found_in_trace(trace_id), records.trace(trace_id)
        if stored is not None and (running is None or stored.revision >= running.revision):
            outcomes = self._outcomes(records, Subject.TRACE, [trace_id])[trace_id]
            return trace_document(stored, outcomes, records.labels(trace_id), found)
        if running is None and (first := records.first_finding(trace_id)) is not None:
            running = told_view(first)
        return None if running is None else trace_document(running, found=found)

    def judgements(self, trace_id: str) -> list[ExchangeDocument] | None:
        with self._records.snapshot() as records:
            exchanges = records.exchanges(trace_id)
        if not exchanges and self.trace(trace_id) is None:
            return None
        return [exchange_document(exchange) for exchange in exchanges]

    def agreement(self, *, name: str | None = None) -> list[AgreementDocument]:
        with self._records.snapshot() as records:
            labelled = records.labelled(name)
        return [agreement_document(evaluator) for evaluator in labelled]

    def session(self, session_id: str) -> SessionDocument | None:
        running = by_session(self._running.traces()).get(session_id, [])
        with self._records.snapshot() as records:
            record = records.session(session_id)
            found = records.found_in_sessions(trace_ids({session_id: running}))[session_id]
            if record is None:
                return self._only_running(session_id, running, found) if running else None
            members = records.members(session_id)
            scores = records.scores(session_id, (*SIGNAL_NAMES, COMPLETED, CORRECT))
            fields = self._fields(records, [record], {session_id: running}, {session_id: found})[0]
        ids = [trace_id for trace_id, _ in members]
        signals: dict[str, dict[str, float]] = {trace_id: {} for trace_id in ids}
        for name in SIGNAL_NAMES:
            for trace_id, score in scores[name].items():
                signals.setdefault(trace_id, {})[name] = score
        completed, correct = scores[COMPLETED], scores[CORRECT]
        return {
            **fields,
            "trace_ids": ids,
            "turn_traces": _by_turn(members),
            "signals": signals,
            "trend": trend_document([completed.get(trace_id) for trace_id in ids]),
            "interactions": interactions_document([correct[each] for each in ids if each in correct]),
        }

    def sessions(
        self, wanted: SessionFilter = EVERY_SESSION, *, limit: int = 50, cursor: str | None = None
    ) -> Page[SessionItem]:
        running = by_session(self._running.traces())
        with self._records.snapshot() as records:
            # They are newer than all others, and become those when their first trace is complete.
            new = self._unknown(records, wanted, running)[:limit] if cursor is None else []
            page = records.sessions(wanted, cursor, limit - len(new))
            own = {record.session_id: running.get(record.session_id, []) for record in page.items}
            found = records.found_in_sessions(trace_ids(own), MAX_LISTED)
            listed = self._fields(records, page.items, running, found)
        items = new + [
            SessionItem(**fields, trace_count=record.trace_count)
            for record, fields in zip(page.items, listed, strict=True)
        ]
        if wanted.order is Order.ATTENTION and new:
            items.sort(key=lambda item: ATTENTION.index(item["worst"]), reverse=True)
        return Page(items=items, next_cursor=page.next_cursor)

    def hit_rate(self, agent: str) -> HitRateDocument | None:
        with self._records.snapshot() as records:
            found = hit_rate(records.session_ends(agent))
        return None if found is None else hit_rate_document(found)

    def reliability(
        self,
        *,
        agent: str | None = None,
        version: str | None = None,
        variant: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[ReliabilityDocument]:
        page = self._reliability.page(agent=agent, version=version, variant=variant, limit=limit, cursor=cursor)
        return Page(items=[reliability_document(each) for each in page.items], next_cursor=page.next_cursor)

    def reliability_comparison(
        self, before: str, after: str, *, agent: str | None = None, variant: str | None = None
    ) -> ComparisonDocument:
        return comparison_document(self._reliability.comparison(before, after, agent=agent, variant=variant))

    def _unknown(
        self, records: RecordSnapshot, wanted: SessionFilter, running: Mapping[str, Sequence[RunningTrace]]
    ) -> list[SessionItem]:
        """The wanted sessions of which nothing is stored, as items of the listing, the newest first."""
        candidates = {each for each, traces in running.items() if may_be_wanted(wanted, traces)}
        ids = sorted(
            candidates - records.known_sessions(candidates), key=lambda each: running[each][0].started_at, reverse=True
        )
        found = records.found_in_sessions(trace_ids({each: running[each] for each in ids}))
        now = self._clock.now()
        items = [running_fields(each, running[each], found[each], last_seen_at=now) for each in ids]
        return [{**fields, "trace_count": 0} for fields in items if shows(fields, wanted)]

    def _only_running(self, session_id: str, running: Sequence[RunningTrace], found: Found) -> SessionDocument:
        """A session none of whose traces is complete."""
        fields = running_fields(session_id, running, found, last_seen_at=self._clock.now())
        return {**fields, "trace_ids": [], "turn_traces": [], "signals": {}, "trend": None, "interactions": None}

    def _outcomes(
        self, records: RecordSnapshot, subject: Subject, ids: Sequence[str]
    ) -> Mapping[str, list[OutcomeDocument]]:
        trouble = self._judge.trouble
        return {
            subject_id: [outcome_document(evaluation, trouble) for evaluation in evaluations]
            for subject_id, evaluations in records.evaluations(subject, ids).items()
        }

    def _fields(
        self,
        records: RecordSnapshot,
        sessions: Sequence[SessionRecord],
        running: Mapping[str, Sequence[RunningTrace]],
        found: Mapping[str, Found],
    ) -> list[SessionFields]:
        """The fields of stored sessions that a listing has as well."""
        ids = [session.session_id for session in sessions]
        deaths = death_reasons(records.deaths(ids), chain.from_iterable(running.values()))
        outcomes = self._outcomes(records, Subject.SESSION, ids)
        flagged, failures = records.flagged_traces(ids), records.judged_failures(ids)
        return [
            {
                "session_id": each.session_id,
                "user_id": each.user_id,
                # The spans that have arrived may name no agent, while those that still run do.
                "agent": each.agent or next((trace.agent for trace in traces if trace.agent), None),
                "services": list(each.services),
                "versions": list(each.versions),
                "status": "running" if traces else self._status(each),
                "status_reason": stop_reason(traces) or deaths.get(each.session_id),
                "started_at": rfc3339(each.started_at),
                "last_seen_at": rfc3339(each.last_seen_at),
                "blind": each.is_blind,
                "running_traces": [trace.trace_id for trace in traces],
                "outcomes": outcomes[each.session_id],
                "flagged_traces": flagged[each.session_id],
                "judged_failures": failures[each.session_id],
                **found_document(found[each.session_id]),
            }
            for each in sessions
            for traces in [running.get(each.session_id, ())]
        ]

    def _status(self, session: SessionRecord) -> SessionStatus:
        if session.ended_at is not None and session.ended_at >= session.last_seen_at:
            return "ended"
        return "idle" if self._clock.now() - session.last_seen_at >= self._idle else "active"


def _by_turn(members: Iterable[tuple[str, bool]]) -> list[list[str]]:
    """The ids of a session's traces, those of one turn together; by start, each with whether it continues a turn."""
    turns: list[list[str]] = []
    for trace_id, continues_turn in members:
        if continues_turn and turns:
            turns[-1].append(trace_id)
        else:
            turns.append([trace_id])
    return turns
