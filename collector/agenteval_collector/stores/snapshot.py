"""Answer queries from outside with the data of one moment."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from operator import attrgetter
from typing import Any

from sqlalchemy import Row, bindparam, func, select

from agenteval_collector.model.sessions import SessionState
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.stores import (
    alarms,
    judge_exchanges,
    labels,
    overview,
    pass_rates,
    problem_list,
    session_list,
    shown_findings,
    trace_list,
)
from agenteval_collector.stores.access import TenantConnection, ids, look_up
from agenteval_collector.stores.agents import read_agent, read_agents, read_history
from agenteval_collector.stores.conversations import second_records
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.problem_traits import read_traits
from agenteval_collector.stores.quarantine import read_quarantine
from agenteval_collector.stores.rows import (
    KEY_OF_FINDING,
    KEY_OF_OUTCOME,
    effort_from,
    evaluation_of,
    finding_of,
    session_state,
)
from agenteval_collector.stores.schema import CAME, OF_TRACE, findings, outcomes, own, sessions, trace_views, traces
from agenteval_collector.stores.session_endings import read_end, read_ends
from agenteval_collector.stores.trace_json import view_from
from agenteval_collector.stores.unasked import read_unasked
from otel_agenteval.finding import Finding
from otel_agenteval.outcome import Evaluation, Status, SubjectKind


class Snapshot:
    """The stored data as of one moment. Its look-ups raise Unavailable if the database refuses."""

    def __init__(self, connection: TenantConnection) -> None:
        self.connection = connection

    def reading(self) -> AbstractContextManager[TenantConnection]:
        # The methods by `look_up` connect with this: all of them share the snapshot's connection.
        return nullcontext(self.connection)

    agents = look_up(read_agents)
    agent = look_up(read_agent)
    agent_history = look_up(read_history)
    found_in_traces = look_up(shown_findings.found_in_traces)
    found_in_sessions = look_up(shown_findings.found_in_sessions)
    flagged_traces = look_up(shown_findings.flagged_traces)
    judged_failures = look_up(shown_findings.judged_failures)
    trace_labels = look_up(labels.read_trace_labels)
    session_labels = look_up(labels.read_session_labels)
    labelled = look_up(labels.read_labelled)
    labels = look_up(labels.read_labels)
    rated = look_up(pass_rates.read_rated)
    judged = look_up(pass_rates.read_judged)
    unscored = look_up(pass_rates.count_unscored)
    asked = look_up(pass_rates.read_asked)
    environments = look_up(overview.read_environments)
    overview = look_up(overview.read_overview)
    problems = look_up(problem_list.read_problems)
    problem = look_up(problem_list.read_problem)
    problem_traits = look_up(read_traits)
    firing_alarms = look_up(alarms.read_firing)
    alarms = look_up(alarms.read_alarms)
    problem_counts = look_up(problem_list.count_problems)
    exchanges = look_up(judge_exchanges.read_exchanges)
    sessions = look_up(session_list.read_sessions)
    trace_ids = look_up(trace_list.read_trace_ids)
    attention = look_up(session_list.read_attention)
    sessions_of = look_up(session_list.read_sessions_of)
    session_ends = look_up(read_ends)
    session_end = look_up(read_end)
    quarantine = look_up(read_quarantine)

    def traces(self, trace_ids: Collection[str]) -> dict[str, TraceView]:
        """Return the newest revisions of those of the traces that are known, each with the session that it is in
        now."""
        rows = self.connection.execute(_VIEWS, ids(trace_ids))
        views = self.connection.readable(traces, rows, _view_of, key=["trace_id"])
        return {view.trace_id: view for view in views}

    def view_sizes(self, trace_ids: Collection[str]) -> dict[str, int]:
        """Return the characters of what is kept of each of the traces that are known."""
        return {row.trace_id: row.size for row in self.connection.execute(_VIEW_SIZES, ids(trace_ids))}

    def newest_traces(self, limit: int) -> list[tuple[int, TraceView]]:
        """Return the traces that came last, the newest first. Each comes with the time (ns) at which it was scored."""
        facts = (traces.c.trace_id, trace_views.c.view, traces.c.revised, traces.c.scored_at)
        query = select(*facts).join_from(traces, trace_views, OF_TRACE)
        rows = self.connection.execute(query.where(own(traces)).order_by(CAME.desc()).limit(limit))
        return self.connection.readable(
            traces, rows, lambda row: (row.scored_at, view_from(row.view, row.revised)), key=["trace_id"]
        )

    def first_finding(self, trace_id: str) -> Finding | None:
        query = select(findings).where(own(findings), findings.c.trace_id == trace_id)
        rows = self.connection.execute(query.order_by(findings.c.found_at).limit(1)).mappings()
        return next(iter(self.connection.readable(findings, rows, finding_of, key=KEY_OF_FINDING)), None)

    def evaluations(self, subject: SubjectKind, subject_ids: Sequence[str]) -> dict[str, list[Evaluation]]:
        by_subject: dict[str, list[Evaluation]] = {subject_id: [] for subject_id in subject_ids}
        values = {"subject": subject, **ids(subject_ids)}
        found = self.connection.execute(_EVALUATIONS, values).mappings()
        rows = self.connection.readable(outcomes, found, evaluation_of, key=KEY_OF_OUTCOME)
        if subject is SubjectKind.TRACE:
            of_trace = [among(traces.c.trace_id, "ids")]
            rows += read_unasked(self.connection, of_trace, rows, values)
        for evaluation in sorted(rows, key=attrgetter("name", "method", "version")):
            by_subject[evaluation.subject_id].append(evaluation)
        return by_subject

    def scores(self, session_id: str, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return, by name, the score of each trace of a session that has one. Of several versions the newest counts."""
        query = select(outcomes.c.name, outcomes.c.subject_id, outcomes.c.score).where(
            own(outcomes),
            outcomes.c.session_id == session_id,
            outcomes.c.subject == SubjectKind.TRACE,
            outcomes.c.name.in_(names),
        )
        rows = self.connection.execute(query.order_by(outcomes.c.evaluated_at)).all()
        newest = {(row.name, row.subject_id): row.score for row in rows}
        by_name: dict[str, dict[str, float]] = {name: {} for name in names}
        for (name, trace_id), score in newest.items():
            if score is not None:
                by_name[name][trace_id] = score
        return by_name

    def truths(self, session_id: str, names: Collection[str]) -> dict[str, bool]:
        """Return, by trace, whether it passes all of these evaluators that compared it with ground truth. A trace of
        which one of them could not say is left out. Of several versions the newest counts."""
        query = select(outcomes.c.subject_id, outcomes.c.name, outcomes.c.success).where(
            own(outcomes),
            outcomes.c.session_id == session_id,
            outcomes.c.subject == SubjectKind.TRACE,
            outcomes.c.name.in_(names),
            outcomes.c.status != Status.NOT_APPLICABLE,
        )
        rows = self.connection.execute(query.order_by(outcomes.c.evaluated_at))
        newest = {(row.subject_id, row.name): row.success for row in rows}
        by_trace: dict[str, list[bool | None]] = {}
        for (trace_id, _), success in newest.items():
            by_trace.setdefault(trace_id, []).append(success)
        return {trace_id: all(found) for trace_id, found in by_trace.items() if None not in found}

    def session(self, session_id: str) -> SessionState | None:
        query = select(sessions).where(own(sessions), sessions.c.session_id == session_id)
        rows = self.connection.execute(query).mappings()
        return next(iter(self.connection.readable(sessions, rows, session_state, key=["session_id"])), None)

    def members(self, session_id: str) -> list[tuple[str, bool]]:
        query = select(traces.c.trace_id, traces.c.continues_turn)
        query = query.where(own(traces), traces.c.session_id == session_id)
        rows = self.connection.execute(query.order_by(traces.c.started_at, traces.c.trace_id))
        again = second_records(self.connection, session_id)
        return [(row.trace_id, row.continues_turn or row.trace_id in again) for row in rows]

    def known_sessions(self, session_ids: Collection[str]) -> set[str]:
        query = select(sessions.c.session_id).where(own(sessions), among(sessions.c.session_id, "ids"))
        return set(self.connection.execute(query, ids(session_ids)).scalars())

    def deaths(self, session_ids: Sequence[str]) -> list[tuple[str, str, str]]:
        query = (
            select(traces.c.session_id, traces.c.trace_id, traces.c.died)
            .where(own(traces), traces.c.session_id.in_(session_ids), traces.c.died.is_not(None))
            .order_by(traces.c.started_at, traces.c.trace_id)
        )
        return [(row.session_id, row.trace_id, row.died) for row in self.connection.execute(query)]


def _view_of(row: Row[Any]) -> TraceView:
    return replace(view_from(row.view, row.revised), session_id=row.session_id, effort=effort_from(row.effort))


# Made once: making a statement costs more than running it.
_EVALUATIONS = (
    select(outcomes)
    .where(own(outcomes), outcomes.c.subject == bindparam("subject"), among(outcomes.c.subject_id, "ids"))
    .order_by(outcomes.c.name, outcomes.c.method, outcomes.c.version)
)
_VIEW_SIZES = select(trace_views.c.trace_id, func.length(trace_views.c.view).label("size")).where(
    own(trace_views), among(trace_views.c.trace_id, "ids")
)
_VIEWS = (
    select(traces.c.trace_id, traces.c.session_id, traces.c.revised, traces.c.effort, trace_views.c.view)
    .join_from(traces, trace_views, OF_TRACE)
    .where(own(traces), among(traces.c.trace_id, "ids"))
)
