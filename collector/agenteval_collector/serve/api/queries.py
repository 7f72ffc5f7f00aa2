"""Answer queries with the documents of docs/api.md, from the store and the running traces."""

import platform
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from itertools import accumulate, chain
from typing import Final

from agenteval_collector.figures.attention import Ranking, facts_of, ranked
from agenteval_collector.figures.cause import DecisiveStep
from agenteval_collector.figures.common_traits import common_traits
from agenteval_collector.figures.hit_rate import has_failed, hit_rate
from agenteval_collector.figures.quality import PassRates
from agenteval_collector.figures.version_reports import ReliabilityReports
from agenteval_collector.model.agents import AgentKey, Range
from agenteval_collector.model.alarms import EVERY_ALARM, AgentAlarm, AlarmFilter
from agenteval_collector.model.cursors import Page, decode_cursor, encode_cursor
from agenteval_collector.model.drift import Drift
from agenteval_collector.model.judge_jobs import GOAL_SUCCESS
from agenteval_collector.model.labels import LabelSource
from agenteval_collector.model.pass_rates import Rated
from agenteval_collector.model.problem import EVERY_PROBLEM, Problem, ProblemCount, ProblemFilter
from agenteval_collector.model.quarantine import InputKind
from agenteval_collector.model.running_traces import RunningTrace
from agenteval_collector.model.session_filter import EVERY_SESSION, Order, SessionFilter, TraceFilter
from agenteval_collector.model.sessions import SessionState
from agenteval_collector.model.shown_findings import MAX_LISTED, ShownFindings
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.times import in_calendar
from agenteval_collector.serve.api import answers, figure_documents, figure_rendering, trace_documents, trace_rendering
from agenteval_collector.serve.api.causes import session_cause, tool_of
from agenteval_collector.serve.api.document import document
from agenteval_collector.serve.api.ports import JudgeState, RunningTraces
from agenteval_collector.serve.api.spans import SpanQueries
from agenteval_collector.serve.api.trace_rendering import trace_document
from agenteval_collector.stores.snapshot import Snapshot
from agenteval_collector.stores.store import Store
from otel_agenteval.metrics import session_trend
from otel_agenteval.metrics.signals import SIGNAL_NAMES
from otel_agenteval.outcome import SubjectKind

COMPLETED: Final = "task_completion"
TRUTHS: Final = ("tool_use_correctness", "answer_correctness")
"""The evaluators that compare a trace with ground truth."""
MOST_RANKED: Final = 2000
"""Newest sessions of an agent that are ordered by attention."""
ATTENTION: Final = ("none", "info", "warning", "error")
"""The values of a session's `worst`, the one that needs least attention first."""

MOST_LISTED: Final = 8 * 1024 * 1024
"""The most characters of what was said and done in the traces of one page of a listing."""


class Queries:
    """Queries of the HTTP API, the page and the gRPC service, about stored and running traces.

    Thread-safe; never blocks on ingestion. Raises Unavailable if the store does. `idle` is the seconds without a
    trace after which a session is idle. `judge_model` is None if there is no judge.
    """

    def __init__(
        self,
        stored: Store,
        clock: Clock,
        *,
        idle: float,
        reliability: ReliabilityReports,
        running: RunningTraces,
        judge: JudgeState,
        drifts: Callable[[], Sequence[Drift]],
        spans: SpanQueries,
        judge_model: str | None = None,
    ) -> None:
        self._stored = stored
        self._clock = clock
        self._running = running
        self._judge = judge
        self._judge_model = judge_model
        self._drifts = drifts
        self._idle = round(idle * 1e9)
        self.version_reports = reliability
        self.pass_rates = PassRates(stored.snapshot, clock)
        self.spans = spans

    def collector(self) -> answers.CollectorDocument:
        """Return the versions of this process, and its judge."""
        model = self._judge_model
        return {
            "version": version("otel-agenteval"),
            "python": platform.python_version(),
            "opentelemetry": version("opentelemetry-sdk"),
            "judge": None if model is None else {"model": model, "trouble": self._judge.fault},
        }

    def quarantine(self) -> list[answers.QuarantineDocument]:
        """Return what is set aside, the newest first."""
        with self._stored.snapshot() as snapshot:
            items = snapshot.quarantine()
        return [
            {
                "id": item.item_id,
                "kind": item.kind,
                "since": in_calendar(item.since),
                "bytes": item.size,
                "trace_ids": [*item.trace_ids],
                "reason": item.reason,
            }
            for item in items
        ]

    def quarantine_counts(self) -> list[tuple[InputKind, int]]:
        """Return how many items of each kind are set aside."""
        with self._stored.snapshot() as snapshot:
            counts = Counter(item.kind for item in snapshot.quarantine())
        return [(kind, counts[kind]) for kind in InputKind]

    def arrivals(self) -> list[figure_documents.ArrivalDocument]:
        """Return what has arrived from each service, among the newest traces."""
        running = self._running.traces()
        with self._stored.snapshot() as snapshot:
            return figure_rendering.arrivals(snapshot, running)

    def trace(self, trace_id: str) -> trace_documents.TraceDocument | None:
        """Return a trace with its outcomes and labels; None if it is unknown."""
        trace = self.traces([trace_id]).get(trace_id)
        if trace is not None:
            with self._stored.snapshot() as snapshot:
                cause = self._cause_in_session(snapshot, trace["session_id"])
            if cause is not None and cause.trace_id == trace_id:
                trace["cause"] = trace_rendering.cause_document(cause)
        return trace

    def traces(self, trace_ids: Sequence[str]) -> dict[str, trace_documents.TraceDocument]:
        """Return the known ones of these traces, with their outcomes and labels, in the given order."""
        # In this order: a trace that has stopped running by the second look is stored by then.
        running = {trace_id: self._running.trace(trace_id) for trace_id in trace_ids}
        going_on = {trace_id: self._running.open_spans(trace_id) for trace_id in trace_ids}
        with self._stored.snapshot() as snapshot:
            documents = self._traces(snapshot, running)
        for trace_id, trace in documents.items():
            open_spans, reason = going_on[trace_id]
            if open_spans:
                trace |= {"open_spans": trace_rendering.open_span_documents(open_spans), "status_reason": reason}
                if reason is None:
                    # The trace was taken for complete and goes on: until it is complete again, its scores are
                    # provisional.
                    trace |= {"status": "running", "complete": False}
        return documents

    def listed_traces(
        self, wanted: TraceFilter, *, limit: int = 50, cursor: str | None = None
    ) -> Page[trace_documents.TraceDocument]:
        """Return the wanted stored traces, the newest first. Raises InvalidRequest for a cursor of another listing.

        A page has fewer than `limit` traces if they would have more than `MOST_LISTED` characters.
        """
        with self._stored.snapshot() as snapshot:
            page = snapshot.trace_ids(wanted, cursor, limit)
            size_of = snapshot.view_sizes(page.items)
            sizes = accumulate(size_of.get(item, 0) for item in page.items)
            fitting = max(1, sum(size <= MOST_LISTED for size in sizes))
            if fitting < len(page.items):
                page = snapshot.trace_ids(wanted, cursor, fitting)
        documents = self.traces(page.items)
        # A trace may be deleted between both looks.
        return Page(items=[documents[item] for item in page.items if item in documents], next_cursor=page.next_cursor)

    def _traces(
        self, snapshot: Snapshot, running: Mapping[str, TraceView | None]
    ) -> dict[str, trace_documents.TraceDocument]:
        ids = list(running)
        stored, findings = snapshot.traces(ids), snapshot.found_in_traces(ids)
        # Only stored traces have outcomes and labels. Callers who wait for a trace ask many times before it is stored,
        # so save the queries.
        outcomes = self._outcomes(snapshot, SubjectKind.TRACE, list(stored)) if stored else {}
        labels = snapshot.trace_labels(stored) if stored else {}
        documents = {}
        for trace_id, open_trace in running.items():
            stored_trace, view = stored.get(trace_id), open_trace
            if stored_trace is not None and (view is None or stored_trace.revision >= view.revision):
                documents[trace_id] = trace_rendering.trace_document(
                    stored_trace, outcomes[trace_id], labels[trace_id], findings[trace_id]
                )
                continue
            if view is None and (first := snapshot.first_finding(trace_id)) is not None:
                view = trace_rendering.told_view(first)
            if view is not None:
                documents[trace_id] = trace_document(view, findings=findings[trace_id])
        return documents

    def _cause_in_session(self, snapshot: Snapshot, session_id: str) -> DecisiveStep | None:
        ids = [trace_id for trace_id, _ in snapshot.members(session_id)]
        outcomes = self._outcomes(snapshot, SubjectKind.SESSION, [session_id])[session_id]
        return session_cause(snapshot, session_id, ids, outcomes, snapshot.flagged_traces([session_id])[session_id])

    def _problem(self, snapshot: Snapshot, problem: Problem) -> figure_documents.ProblemDocument:
        """Make the document of a problem. The step that the judge names is looked up in its session."""
        own, step = problem.cause, None
        if own is not None and own.told_by == GOAL_SUCCESS:
            step = self._cause_in_session(snapshot, own.session_id)
        if own is None or step is None:
            return figure_rendering.problem_document(problem)
        tool = tool_of(snapshot, step)
        cause = document(figure_documents.ProblemCauseDocument, step, tool=tool, traces=own.traces)
        return figure_rendering.problem_document(problem, cause)

    def judgements(self, trace_id: str) -> list[trace_documents.ExchangeDocument] | None:
        """Return the judge's exchanges about a trace, oldest first; None if the trace is unknown."""
        return self._exchanges(SubjectKind.TRACE, trace_id, self.trace)

    def session_judgements(self, session_id: str) -> list[trace_documents.ExchangeDocument] | None:
        """Return the judge's exchanges about a whole session, oldest first; None if the session is unknown."""
        return self._exchanges(SubjectKind.SESSION, session_id, self.session)

    def _exchanges(
        self, subject: SubjectKind, subject_id: str, known: Callable[[str], object]
    ) -> list[trace_documents.ExchangeDocument] | None:
        with self._stored.snapshot() as snapshot:
            exchanges = snapshot.exchanges(subject, subject_id)
        if not exchanges and known(subject_id) is None:
            return None
        return [document(trace_documents.ExchangeDocument, exchange) for exchange in exchanges]

    def drifts(self) -> list[figure_documents.DriftDocument]:
        """Return, by evaluator, how the judge scores its canaries now and scored them before."""
        return [
            document(
                figure_documents.DriftDocument,
                drift,
                flips=[document(figure_documents.FlipDocument, flip) for flip in drift.flips],
            )
            for drift in self._drifts()
        ]

    def agreement(self, *, name: str | None = None) -> list[figure_documents.AgreementDocument]:
        """Return the agreement of scores with labels, by name, method, version and model of the evaluator."""
        with self._stored.snapshot() as snapshot:
            labelled = snapshot.labelled(name)
        return [figure_rendering.agreement_document(evaluator) for evaluator in labelled]

    def labels(
        self, name: str | None = None, source: LabelSource | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[trace_documents.LabelItem]:
        """Return the labels of an evaluator's scores, of one kind of author or of all, the newest first.

        Raises InvalidRequest for a cursor of another listing.
        """
        with self._stored.snapshot() as snapshot:
            page = snapshot.labels(name, source, cursor, limit)
        return page.map(lambda label: document(trace_documents.LabelItem, label))

    def quality(
        self, *, limit: int = 50, cursor: str | None = None, **wanted: str | None
    ) -> Page[figure_documents.QualityDocument]:
        """Return pass rates, newest judgement first. `wanted` may name `agent`, `version` and the evaluator (`name`).

        Raises InvalidRequest for a cursor of another listing.
        """
        return self.pass_rates.page(limit=limit, cursor=cursor, **wanted).map(figure_rendering.quality_document)

    def problems(
        self, wanted: ProblemFilter = EVERY_PROBLEM, *, limit: int = 50, cursor: str | None = None
    ) -> Page[figure_documents.ProblemDocument]:
        """Return the wanted problems: open ones first, then by severity, then by last occurrence.

        Raises InvalidRequest for a cursor of another listing.
        """
        with self._stored.snapshot() as snapshot:
            page = snapshot.problems(wanted, now=self._clock.now(), limit=limit, cursor=cursor)
            return page.map(partial(self._problem, snapshot))

    def problem(self, problem_id: str) -> figure_documents.ProblemDocument | None:
        """Return a problem; None if it is unknown."""
        with self._stored.snapshot() as snapshot:
            found = snapshot.problem(problem_id, self._clock.now())
            return None if found is None else self._problem(snapshot, found)

    def common_traits(self, problem: figure_documents.ProblemDocument) -> figure_documents.CommonDocument:
        """Return what the newest traces with a problem have in common, beside the newest others of its agent."""
        with self._stored.snapshot() as snapshot:
            key = AgentKey(problem["agent"], problem["service"])
            found = common_traits(*snapshot.problem_traits(problem["problem_id"], key))
        return {
            "sessions": found.sessions,
            "others": found.others,
            "items": [
                document(figure_documents.CommonTraitDocument, each, **each.trait._asdict()) for each in found.traits
            ],
        }

    def problem_counts(self) -> list[ProblemCount]:
        """Return the number of problems by state, severity and agent."""
        with self._stored.snapshot() as snapshot:
            return snapshot.problem_counts(self._clock.now())

    def alarms(
        self, wanted: AlarmFilter = EVERY_ALARM, *, limit: int = 50, cursor: str | None = None
    ) -> Page[figure_documents.AlarmDocument]:
        """Return the wanted alarms, the newest first. Raises InvalidRequest for a cursor of another listing."""
        with self._stored.snapshot() as snapshot:
            page = snapshot.alarms(wanted, limit=limit, cursor=cursor)
        return page.map(figure_rendering.alarm_document)

    def firing_alarms(self) -> list[AgentAlarm]:
        """Return the alarms that fire."""
        with self._stored.snapshot() as snapshot:
            return snapshot.firing_alarms()

    def environments(self) -> list[str]:
        """Return the environments of the newest sessions."""
        with self._stored.snapshot() as snapshot:
            return snapshot.environments()

    def overview(
        self, chosen: Range = Range.DAY, *, environment: str | None = None
    ) -> figure_documents.OverviewDocument:
        """Return what all agents do together, in one environment or in all."""
        with self._stored.snapshot() as snapshot:
            return figure_rendering.overview_document(snapshot, chosen, environment, now=self._clock.now())

    def agents(
        self,
        chosen: Range = Range.DAY,
        *,
        limit: int = 50,
        cursor: str | None = None,
        environment: str | None = None,
    ) -> figure_documents.AgentPage:
        """Return agents with their figures over time, newest telemetry first. Raises InvalidRequest for a cursor of
        another listing."""
        with self._stored.snapshot() as snapshot:
            return figure_rendering.agent_page(
                snapshot, chosen, environment, now=self._clock.now(), limit=limit, cursor=cursor
            )

    def agent(
        self, agent: str, chosen: Range = Range.DAY, *, service: str | None = None, environment: str | None = None
    ) -> figure_documents.AgentDocument | None:
        """Return an agent with its figures over time; None if it is unknown. Raises InvalidRequest if several services
        have an agent of this name and none of them is given."""
        with self._stored.snapshot() as snapshot:
            return figure_rendering.agent_document(snapshot, agent, service, chosen, environment, now=self._clock.now())

    def rated(self) -> Sequence[Rated]:
        """Return everything that has a pass rate, newest judgement first."""
        return self.pass_rates.rated()

    def next_to_label(
        self, name: str, *, skip: Collection[str] = (), **wanted: str | None
    ) -> figure_documents.DrawDocument | None:
        """Return the trace or session that a person should label next, without the ids in `skip`; None if nothing is
        left. `wanted` may name `agent`, `service` and `version`."""
        draw = self.pass_rates.next_draw(name, skip=skip, **wanted)
        return None if draw is None else document(figure_documents.DrawDocument, draw[1], **draw[0]._asdict())

    def session(self, session_id: str) -> trace_documents.SessionDocument | None:
        """Return a session with all that its page shows; None if it is unknown."""
        running = trace_rendering.by_session(self._running.traces()).get(session_id, [])
        with self._stored.snapshot() as snapshot:
            state = snapshot.session(session_id)
            findings = snapshot.found_in_sessions(trace_rendering.trace_ids({session_id: running}))[session_id]
            if state is not None:
                fields = self._fields(snapshot, [state], {session_id: running}, {session_id: findings})[0]
            elif running:
                fields = trace_rendering.running_fields(session_id, running, findings, self._clock.now())
            else:
                return None
            members = snapshot.members(session_id)
            labels = snapshot.session_labels(session_id)
            scores = snapshot.scores(session_id, (*SIGNAL_NAMES, COMPLETED))
            truths = snapshot.truths(session_id, TRUTHS)
            ids = [trace_id for trace_id, _ in members]
            cause = session_cause(snapshot, session_id, ids, fields["outcomes"], fields["flagged_traces"])
        signals: dict[str, dict[str, float]] = {trace_id: {} for trace_id in ids}
        for name in SIGNAL_NAMES:
            for trace_id, score in scores[name].items():
                signals.setdefault(trace_id, {})[name] = score
        completed = scores[COMPLETED]
        return {
            **fields,
            "trace_ids": ids,
            "turn_traces": _by_turn(members),
            "cause": trace_rendering.cause_document(cause),
            "signals": signals,
            "labels": [document(trace_documents.LabelDocument, label) for label in labels],
            "trend": document(
                trace_documents.TrendDocument, session_trend([completed.get(trace_id) for trace_id in ids])
            )
            if state
            else None,
            "interactions": figure_rendering.interactions_document(
                [truths[trace_id] for trace_id in ids if trace_id in truths]
            ),
        }

    def sessions(
        self, wanted: SessionFilter = EVERY_SESSION, *, limit: int = 50, cursor: str | None = None
    ) -> Page[trace_documents.SessionItem]:
        """Return the wanted sessions in the wanted order. Raises InvalidRequest for a cursor of another listing."""
        running = trace_rendering.by_session(self._running.traces())
        with self._stored.snapshot() as snapshot:
            # Sessions without a complete trace are the newest. They enter the store when their first trace is complete.
            new = self._unknown(snapshot, wanted, running)[:limit] if cursor is None else []
            reasons: Mapping[str, str] = {}
            if wanted.order is Order.ATTENTION and wanted.agent is not None:
                page, reasons = _by_attention(snapshot, wanted, wanted.agent, cursor, limit - len(new))
            else:
                page = snapshot.sessions(wanted, cursor, limit - len(new))
            own = {state.session_id: running.get(state.session_id, []) for state in page.items}
            findings = snapshot.found_in_sessions(trace_rendering.trace_ids(own), MAX_LISTED)
            listed = self._fields(snapshot, page.items, running, findings)
        items = new + [
            {**fields, "trace_count": state.trace_count, "attention": None}
            for state, fields in zip(page.items, listed, strict=True)
        ]
        if wanted.order is Order.ATTENTION:
            for item in items:
                item["attention"] = {"reason": reasons.get(item["session_id"]) or _reason_of(item)}
            if new and not reasons:
                items.sort(key=lambda item: ATTENTION.index(item["worst"]), reverse=True)
        return Page(items=items, next_cursor=page.next_cursor)

    def attention(self, wanted: SessionFilter) -> trace_documents.AttentionDocument:
        """Return how well the order by attention of one agent's sessions finds those that failed."""
        assert wanted.agent is not None
        with self._stored.snapshot() as snapshot:
            ranking = _ranking(snapshot, wanted, wanted.agent)
        return {
            "learnt_from": ranking.learnt_from,
            "auroc": ranking.auroc,
            "precision_at_20": ranking.precision_at_20,
        }

    def hit_rate(self, agent: str, service: str | None = None) -> trace_documents.HitRateDocument | None:
        """Return the failure rates of the agent's sessions with an error finding and without one; None while too few
        ends are known."""
        with self._stored.snapshot() as snapshot:
            rate = hit_rate(snapshot.session_ends(agent, service))
        return None if rate is None else figure_rendering.hit_rate_document(rate)

    def reliability(
        self, *, limit: int = 50, cursor: str | None = None, **wanted: str | None
    ) -> Page[figure_documents.ReliabilityDocument]:
        """Return reliability over runs, newest trace first. `wanted` may name `agent`, `version` and `variant`.

        Raises InvalidRequest for an unknown variant, and for a cursor of another listing.
        """
        return self.version_reports.page(limit=limit, cursor=cursor, **wanted).map(
            figure_rendering.reliability_document
        )

    def reliability_comparison(
        self, before: str, after: str, **wanted: str | None
    ) -> figure_documents.ComparisonDocument:
        """Return version `after` of an agent beside version `before`; `wanted` names agent, variant, and the figure
        that decides whether they differ (`primary`).

        Raises NotFound if one of them has no runs, InvalidRequest for an unknown variant or figure and if several
        agents have these versions.
        """
        return figure_rendering.comparison_document(self.version_reports.comparison(before, after, **wanted))

    def _unknown(
        self, snapshot: Snapshot, wanted: SessionFilter, running: Mapping[str, Sequence[RunningTrace]]
    ) -> list[trace_documents.SessionItem]:
        """Return the wanted sessions of which nothing is stored, as items of the listing, the newest first."""
        candidates = {key for key, traces in running.items() if trace_rendering.may_be_wanted(wanted, traces)}
        ids = sorted(
            candidates - snapshot.known_sessions(candidates),
            key=lambda candidate: running[candidate][0].started_at,
            reverse=True,
        )
        findings = snapshot.found_in_sessions(
            trace_rendering.trace_ids({session_id: running[session_id] for session_id in ids})
        )
        now = self._clock.now()
        items = [
            trace_rendering.running_fields(session_id, running[session_id], findings[session_id], now)
            for session_id in ids
        ]
        return [
            {**fields, "trace_count": 0, "attention": None} for fields in items if trace_rendering.shows(fields, wanted)
        ]

    def _outcomes(
        self, snapshot: Snapshot, subject: SubjectKind, ids: Sequence[str]
    ) -> Mapping[str, list[trace_documents.OutcomeDocument]]:
        trouble = self._judge.trouble
        return {
            subject_id: [trace_rendering.outcome_document(evaluation, trouble) for evaluation in evaluations]
            for subject_id, evaluations in snapshot.evaluations(subject, ids).items()
        }

    def _fields(
        self,
        snapshot: Snapshot,
        sessions: Sequence[SessionState],
        running: Mapping[str, Sequence[RunningTrace]],
        findings: Mapping[str, ShownFindings],
    ) -> list[trace_documents.SessionFields]:
        """Return the fields of stored sessions that a listing has as well."""
        ids = [session.session_id for session in sessions]
        deaths = trace_rendering.death_reasons(snapshot.deaths(ids), chain.from_iterable(running.values()))
        outcomes = self._outcomes(snapshot, SubjectKind.SESSION, ids)
        flagged, failures = snapshot.flagged_traces(ids), snapshot.judged_failures(ids)
        return [
            trace_rendering.session_fields(
                session,
                running.get(session.session_id, ()),
                findings[session.session_id],
                status=self._status(session),
                death=deaths.get(session.session_id),
                outcomes=outcomes[session.session_id],
                flagged_traces=flagged[session.session_id],
                judged_failures=failures[session.session_id],
            )
            for session in sessions
        ]

    def _status(self, session: SessionState) -> trace_documents.SessionStatus:
        if session.ended_at is not None and session.ended_at >= session.last_seen_at:
            return "ended"
        return "idle" if self._clock.now() - session.last_seen_at >= self._idle else "active"


def _by_turn(members: Iterable[tuple[str, bool]]) -> list[list[str]]:
    """Group the ids of a session's traces by turn; they come by start, each with whether it continues a turn."""
    turns: list[list[str]] = []
    for trace_id, continues_turn in members:
        if continues_turn and turns:
            turns[-1].append(trace_id)
        else:
            turns.append([trace_id])
    return turns


def _ranking(snapshot: Snapshot, wanted: SessionFilter, agent: str) -> Ranking:
    """Rank the newest wanted sessions of an agent."""
    ends = {end.session_id: has_failed(end) for end in snapshot.session_ends(agent, wanted.service)}
    return ranked([facts_of(row, ends.get(row.session_id)) for row in snapshot.attention(wanted, MOST_RANKED)])


def _by_attention(
    snapshot: Snapshot, wanted: SessionFilter, agent: str, cursor: str | None, limit: int
) -> tuple[Page[SessionState], Mapping[str, str]]:
    """Return a page of an agent's sessions in the order of their ranking, and the reason for the place of each."""
    ranking = _ranking(snapshot, wanted, agent)
    start = decode_cursor(cursor, int)[0] if cursor is not None else 0
    shown = ranking.order[start : start + limit]
    behind = start + limit
    page = Page(
        items=snapshot.sessions_of(shown), next_cursor=encode_cursor([behind]) if behind < len(ranking.order) else None
    )
    return page, dict(zip(shown, ranking.reasons[start:behind], strict=True))


def _reason_of(item: trace_documents.SessionItem) -> str:
    """Return why a session has its place among those of several agents."""
    if item["worst"] == "error":
        return "it has a finding of severity error"
    if item["judged_failures"]:
        return "the judge failed it"
    return "it has no finding" if item["worst"] == "none" else f"its worst finding is of severity {item['worst']}"
