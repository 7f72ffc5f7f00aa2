"""Everything that is known, as it is at one moment, for queries from outside."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import select

from agenteval_collector.model.cursors import Page
from agenteval_collector.model.judging import Exchange
from agenteval_collector.model.labelled import LabelledEvaluator
from agenteval_collector.model.quality import JudgedScore, Rated, RatedChange
from agenteval_collector.model.reports import Label
from agenteval_collector.model.session_filter import SessionFilter
from agenteval_collector.model.sessions import SessionEnd, SessionRecord
from agenteval_collector.model.shown_findings import MAX_SHOWN, ShownFindings
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.problems.problem import Problem, ProblemCount, ProblemFilter
from agenteval_collector.runtime.database import among
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.conversations import second_records
from agenteval_collector.stores.finding_rows import finding_of
from agenteval_collector.stores.judging import read_exchanges
from agenteval_collector.stores.labels import read_labelled, read_labels
from agenteval_collector.stores.problem_list import count_problems, read_problem, read_problems
from agenteval_collector.stores.quality import count_unscored, read_judged, read_rated
from agenteval_collector.stores.rows import evaluation_of, session_record
from agenteval_collector.stores.schema import OF_TRACE, findings, outcomes, own, sessions, trace_views, traces
from agenteval_collector.stores.session_ends import read_ends
from agenteval_collector.stores.session_list import read_sessions
from agenteval_collector.stores.shown_findings import flagged_traces, found_in_sessions, found_in_trace, judged_failures
from agenteval_collector.stores.trace_json import view_from
from otel_agenteval.finding import Finding
from otel_agenteval.outcome import Evaluation, Subject


class Snapshot:
    """`RecordSnapshot` on the store's file. Its look-ups raise Unavailable where the file refuses."""

    def __init__(self, connection: TenantConnection) -> None:
        self._connection = connection

    def trace(self, trace_id: str) -> TraceView | None:
        """Return the newest revision of a trace, in the session that it is in by now; None where it is unknown."""
        query = select(trace_views.c.view, traces.c.revised, traces.c.session_id).join_from(
            traces, trace_views, OF_TRACE
        )
        row = self._connection.execute(query.where(own(traces), traces.c.trace_id == trace_id)).first()
        return None if row is None else replace(view_from(row.view, row.revised), session_id=row.session_id)

    def first_finding(self, trace_id: str) -> Finding | None:
        query = select(findings).where(own(findings), findings.c.trace_id == trace_id)
        row = self._connection.execute(query.order_by(findings.c.found_at).limit(1)).mappings().first()
        return None if row is None else finding_of(row)

    def found_in_trace(self, trace_id: str) -> ShownFindings:
        return found_in_trace(self._connection, trace_id)

    def found_in_sessions(
        self, running: Mapping[str, Collection[str]], limit: int = MAX_SHOWN
    ) -> dict[str, ShownFindings]:
        return found_in_sessions(self._connection, running, limit)

    def evaluations(self, subject: Subject, ids: Sequence[str]) -> dict[str, list[Evaluation]]:
        found: dict[str, list[Evaluation]] = {each: [] for each in ids}
        query = select(outcomes).where(own(outcomes), outcomes.c.subject == subject, outcomes.c.subject_id.in_(ids))
        query = query.order_by(outcomes.c.name, outcomes.c.method, outcomes.c.version)
        for row in self._connection.execute(query).mappings():
            found[row["subject_id"]].append(evaluation_of(row))
        return found

    def scores(self, session_id: str, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return, by name, the score of each trace of a session that has one; of several versions the newest."""
        query = select(outcomes.c.name, outcomes.c.subject_id, outcomes.c.score).where(
            own(outcomes),
            outcomes.c.session_id == session_id,
            outcomes.c.subject == Subject.TRACE,
            outcomes.c.name.in_(names),
        )
        rows = self._connection.execute(query.order_by(outcomes.c.evaluated_at)).all()
        newest = {(row.name, row.subject_id): row.score for row in rows}
        found: dict[str, dict[str, float]] = {name: {} for name in names}
        for (name, trace_id), score in newest.items():
            if score is not None:
                found[name][trace_id] = score
        return found

    def labels(self, trace_id: str) -> list[Label]:
        return read_labels(self._connection, trace_id=trace_id)

    def session_labels(self, session_id: str) -> list[Label]:
        return read_labels(self._connection, session_id=session_id)

    def labelled(self, name: str | None) -> list[LabelledEvaluator]:
        return read_labelled(self._connection, name)

    def rated(self) -> list[RatedChange]:
        return read_rated(self._connection)

    def judged(self, rated: Rated) -> list[JudgedScore]:
        return read_judged(self._connection, rated)

    def unscored(self, rated: Rated) -> int:
        return count_unscored(self._connection, rated)

    def problems(self, wanted: ProblemFilter, *, now: int, limit: int, cursor: str | None) -> Page[Problem]:
        return read_problems(self._connection, wanted, now=now, limit=limit, cursor=cursor)

    def problem(self, problem_id: str, now: int) -> Problem | None:
        return read_problem(self._connection, problem_id, now)

    def problem_counts(self, now: int) -> list[ProblemCount]:
        return count_problems(self._connection, now)

    def exchanges(self, subject: Subject, subject_id: str) -> list[Exchange]:
        return read_exchanges(self._connection, subject, subject_id)

    def session(self, session_id: str) -> SessionRecord | None:
        query = select(sessions).where(own(sessions), sessions.c.session_id == session_id)
        row = self._connection.execute(query).mappings().first()
        return None if row is None else session_record(row)

    def members(self, session_id: str) -> list[tuple[str, bool]]:
        query = select(traces.c.trace_id, traces.c.continues_turn)
        query = query.where(own(traces), traces.c.session_id == session_id)
        rows = self._connection.execute(query.order_by(traces.c.started_at, traces.c.trace_id))
        again = second_records(self._connection, session_id)
        return [(row.trace_id, row.continues_turn or row.trace_id in again) for row in rows]

    def sessions(self, wanted: SessionFilter, cursor: str | None, limit: int) -> Page[SessionRecord]:
        return read_sessions(self._connection, wanted, cursor, limit)

    def known_sessions(self, session_ids: Collection[str]) -> set[str]:
        query = select(sessions.c.session_id).where(own(sessions), among(sessions.c.session_id, "ids"))
        return set(self._connection.execute(query, ids(session_ids)).scalars())

    def session_ends(self, agent: str) -> list[SessionEnd]:
        return read_ends(self._connection, agent)

    def flagged_traces(self, session_ids: Collection[str]) -> dict[str, list[str]]:
        return flagged_traces(self._connection, session_ids)

    def judged_failures(self, session_ids: Collection[str]) -> dict[str, int]:
        return judged_failures(self._connection, session_ids)

    def deaths(self, session_ids: Sequence[str]) -> list[tuple[str, str, str]]:
        query = (
            select(traces.c.session_id, traces.c.trace_id, traces.c.died)
            .where(own(traces), traces.c.session_id.in_(session_ids), traces.c.died.is_not(None))
            .order_by(traces.c.started_at, traces.c.trace_id)
        )
        return [(row.session_id, row.trace_id, row.died) for row in self._connection.execute(query)]
