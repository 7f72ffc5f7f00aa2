"""Everything that is known, as it is at one moment, for queries from outside."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import select

from agenteval_collector.model.cursors import Page
from agenteval_collector.model.found import MAX_SHOWN, Found
from agenteval_collector.model.judging import Exchange
from agenteval_collector.model.labelled import LabelledEvaluator
from agenteval_collector.model.reports import Label
from agenteval_collector.model.session_filter import SessionFilter
from agenteval_collector.model.sessions import SessionEnd, SessionRecord
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.runtime.database import in_parts
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.conversations import second_records
from agenteval_collector.stores.finding_rows import finding_of
from agenteval_collector.stores.found import flagged_traces, found_in_sessions, found_in_trace, judged_failures
from agenteval_collector.stores.judging import read_exchanges
from agenteval_collector.stores.labels import read_labelled, read_labels
from agenteval_collector.stores.rows import evaluation_of, session_record
from agenteval_collector.stores.schema import OF_TRACE, findings, outcomes, own, sessions, trace_views, traces
from agenteval_collector.stores.session_ends import read_ends
from agenteval_collector.stores.session_list import read_sessions
from agenteval_collector.stores.trace_json import view_from
from otel_agenteval.finding import Finding
from otel_agenteval.outcome import Evaluation, Subject


class Snapshot:
    """Look-ups that all see the store at the same moment; they raise Unavailable where the file refuses."""

    def __init__(self, connection: TenantConnection) -> None:
        self._connection = connection

    def trace(self, trace_id: str) -> TraceView | None:
        """The newest revision of a trace, in the session that it is in by now; None where it is unknown."""
        query = select(trace_views.c.view, traces.c.revised, traces.c.session_id).join_from(
            traces, trace_views, OF_TRACE
        )
        row = self._connection.execute(query.where(own(traces), traces.c.trace_id == trace_id)).first()
        return None if row is None else replace(view_from(row.view, row.revised), session_id=row.session_id)

    def first_finding(self, trace_id: str) -> Finding | None:
        """The finding of a trace that was found first; None where there is none."""
        query = select(findings).where(own(findings), findings.c.trace_id == trace_id)
        row = self._connection.execute(query.order_by(findings.c.found_at).limit(1)).mappings().first()
        return None if row is None else finding_of(row)

    def found_in_trace(self, trace_id: str) -> Found:
        """The findings of a trace."""
        return found_in_trace(self._connection, trace_id)

    def found_in_sessions(self, running: Mapping[str, Collection[str]], limit: int = MAX_SHOWN) -> dict[str, Found]:
        """Return the findings of sessions, at most `limit` of each. `running` has the traces of each that are not
        complete: their findings may be stored with the trace alone."""
        return found_in_sessions(self._connection, running, limit)

    def evaluations(self, subject: Subject, ids: Sequence[str]) -> dict[str, list[Evaluation]]:
        """The outcomes of traces or sessions, by their ids."""
        found: dict[str, list[Evaluation]] = {each: [] for each in ids}
        query = select(outcomes).where(own(outcomes), outcomes.c.subject == subject, outcomes.c.subject_id.in_(ids))
        query = query.order_by(outcomes.c.name, outcomes.c.method, outcomes.c.version)
        for row in self._connection.execute(query).mappings():
            found[row["subject_id"]].append(evaluation_of(row))
        return found

    def scores(self, session_id: str, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """By name, the score of each trace of a session that has one; of several versions the newest."""
        query = select(outcomes.c.name, outcomes.c.subject_id, outcomes.c.score).where(
            own(outcomes),
            outcomes.c.session_id == session_id,
            outcomes.c.subject == Subject.TRACE,
            outcomes.c.name.in_(names),
        )
        newest: dict[str, dict[str, float | None]] = {name: {} for name in names}
        for row in self._connection.execute(query.order_by(outcomes.c.evaluated_at)):
            newest[row.name][row.subject_id] = row.score
        return {
            name: {trace_id: score for trace_id, score in scores.items() if score is not None}
            for name, scores in newest.items()
        }

    def labels(self, trace_id: str) -> list[Label]:
        """The labels of a trace by name, the oldest first."""
        return read_labels(self._connection, trace_id)

    def labelled(self, name: str | None) -> list[LabelledEvaluator]:
        """The evaluators that have scored a labelled trace, with these scores; those of one name where it is given."""
        return read_labelled(self._connection, name)

    def exchanges(self, trace_id: str) -> list[Exchange]:
        """The exchanges with the judge about a trace, in the order of asking."""
        return read_exchanges(self._connection, trace_id)

    def session(self, session_id: str) -> SessionRecord | None:
        """A session; None where it is unknown."""
        query = select(sessions).where(own(sessions), sessions.c.session_id == session_id)
        row = self._connection.execute(query).mappings().first()
        return None if row is None else session_record(row)

    def members(self, session_id: str) -> list[tuple[str, bool]]:
        """The traces of a session by start, each with whether it continues a turn."""
        query = select(traces.c.trace_id, traces.c.continues_turn)
        query = query.where(own(traces), traces.c.session_id == session_id)
        rows = self._connection.execute(query.order_by(traces.c.started_at, traces.c.trace_id))
        again = second_records(self._connection, session_id)
        return [(row.trace_id, row.continues_turn or row.trace_id in again) for row in rows]

    def sessions(self, wanted: SessionFilter, cursor: str | None, limit: int) -> Page[SessionRecord]:
        """At most `limit` of the wanted sessions, from where the cursor points on. Raises InvalidRequest for a cursor
        of another listing."""
        return read_sessions(self._connection, wanted, cursor, limit)

    def known_sessions(self, session_ids: Collection[str]) -> set[str]:
        """The sessions among these that are stored."""
        known: set[str] = set()
        for some in in_parts(list(session_ids)):
            query = select(sessions.c.session_id).where(own(sessions), sessions.c.session_id.in_(some))
            known.update(self._connection.execute(query).scalars())
        return known

    def session_ends(self, agent: str) -> list[SessionEnd]:
        """All that is said of how the newest sessions of an agent ended."""
        return read_ends(self._connection, agent)

    def flagged_traces(self, session_ids: Collection[str]) -> dict[str, list[str]]:
        """The traces of each session that have a finding of severity error, or a judge's score below its threshold."""
        return flagged_traces(self._connection, session_ids)

    def judged_failures(self, session_ids: Collection[str]) -> dict[str, int]:
        """The number of the judge's scores below their threshold, by session."""
        return judged_failures(self._connection, session_ids)

    def deaths(self, session_ids: Sequence[str]) -> list[tuple[str, str, str]]:
        """The traces in which an agent died, by start: session, trace, and the reason for its end."""
        query = (
            select(traces.c.session_id, traces.c.trace_id, traces.c.died)
            .where(own(traces), traces.c.session_id.in_(session_ids), traces.c.died.is_not(None))
            .order_by(traces.c.started_at, traces.c.trace_id)
        )
        return [(row.session_id, row.trace_id, row.died) for row in self._connection.execute(query)]
