"""The writing side of the store, and the look-ups that the pipeline needs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Row,
    bindparam,
    exists,
    literal_column,
    select,
    update,
)

from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.judging import JudgeJob
from agenteval_collector.model.news import EventsOf, News, WorstFinding, no_events
from agenteval_collector.model.reports import Label, RunReport
from agenteval_collector.model.sessions import SessionRecord, StoredPlace, StoredSession, StoredTrace
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import Outdated
from agenteval_collector.runtime.json_lists import among
from agenteval_collector.stores.access import Snapshots, TenantConnection, TenantDatabase, ids
from agenteval_collector.stores.canaries import JudgeCanaryStore
from agenteval_collector.stores.claims import Claims
from agenteval_collector.stores.commits import is_apart, write_commit, written_by
from agenteval_collector.stores.conversations import ConversationStore, trim_links
from agenteval_collector.stores.counted import final_scores
from agenteval_collector.stores.deletions import DeletionStore
from agenteval_collector.stores.engines import Database
from agenteval_collector.stores.engines.sqlite import SqliteFile
from agenteval_collector.stores.finding_rows import worst
from agenteval_collector.stores.findings import FindingStore
from agenteval_collector.stores.goals import read_gone_on, read_session_revision, read_without_goal
from agenteval_collector.stores.habits import HabitStore
from agenteval_collector.stores.judge_answers import JudgeAnswerStore
from agenteval_collector.stores.judged import JudgedStore
from agenteval_collector.stores.judging import (
    JudgeLedgerStore,
    read_judged,
    read_parts,
    read_pending,
    trim_exchanges,
)
from agenteval_collector.stores.labels import LABELS, trim_labels, write_label
from agenteval_collector.stores.migration import migrate
from agenteval_collector.stores.outbox import Outbox
from agenteval_collector.stores.past_sessions import PastSessionStore
from agenteval_collector.stores.problem_marks import ProblemMarks
from agenteval_collector.stores.problem_sums import trim_counts
from agenteval_collector.stores.rows import (
    effort_from,
)
from agenteval_collector.stores.runs import RunStore, trim_run_reports, write_run_report
from agenteval_collector.stores.schema import outcomes, own, progress, sessions, trace_views, traces
from agenteval_collector.stores.session_counts import count_sessions
from agenteval_collector.stores.session_levels import SessionLevelStore
from agenteval_collector.stores.session_turns import SessionTurns
from agenteval_collector.stores.snapshot import Snapshot
from agenteval_collector.stores.stored_sessions import (
    read_neighbours,
    read_session,
    read_session_traces,
    read_traces,
)
from agenteval_collector.stores.trace_json import says_the_same
from agenteval_collector.stores.versions import VersionSnapshot
from otel_agenteval.finding import Severity
from otel_agenteval.outcome import Evaluation, Part, Status, Subject

TRIM_EXCHANGES_EVERY = 60.0
"""Seconds between looks for old exchanges while no judgement comes: a look costs as much as keeping a trace."""
TRIM_REPORTS_EVERY = 3600.0
"""Seconds."""
TRIM_LINKS_EVERY = 600.0
"""Seconds."""
PROCESSES_OF = 100
"""Newest traces of a session whose processes take part in it."""


class Store:
    """The rows of a tenant in a database; a path is that of a SQLite file. `commit` and the look-ups belong to the
    pipeline's threads, reports to any thread.

    Where a replay begins, what came from outside (reports) and what was paid for (judgements) is durable; what a replay
    of the log finds again for nothing may be lost with the machine. What the judge was asked is kept for `retention`
    seconds, and forgotten by the commits after that; reports of runs of which no trace came are kept as long, and
    forgotten by later reports. `events_of` makes the events that wait in the outbox. Every method raises Unavailable
    where the database refuses.
    """

    def __init__(
        self,
        database: Path | Database,
        clock: Clock,
        *,
        tenant: str = DEFAULT_TENANT,
        retention: float = 24 * 3600.0,
        events_of: EventsOf = no_events,
    ) -> None:
        self._clock = clock
        self._retention = round(retention * 1e9)
        self._next: dict[str, float] = {}
        opened: Database = SqliteFile(database) if isinstance(database, Path) else database
        self._database = opened
        self._writes_beside = opened.beside is not None
        self._pipeline = TenantDatabase(opened, opened.engine(durable=False, pool_size=4), tenant)
        self._durable = TenantDatabase(opened, opened.engine(durable=True, pool_size=1), tenant)
        self.outside = TenantDatabase(opened, opened.engine(durable=False, pool_size=8), tenant)
        """For queries from outside: however many there are, the pipeline has connections of its own."""
        self.writes = 0
        """Counts what was written; it may also rise where nothing was changed."""
        self.ledger = JudgeLedgerStore(self._pipeline)
        self.answers = JudgeAnswerStore(self._durable, clock)
        self.canaries = JudgeCanaryStore(self._pipeline)
        self.outbox = Outbox(self._pipeline, events_of)
        self.findings = FindingStore(self._pipeline, self.outbox)
        self.habits = HabitStore(self._pipeline)
        self.conversations = ConversationStore(self._pipeline)
        self.turns = SessionTurns(self._pipeline)
        self.past_sessions = PastSessionStore(self._pipeline)
        self.problems = ProblemMarks(self._durable, clock)
        self.deletions = DeletionStore(self._durable, clock)
        self.claims = Claims(self._durable)
        self.session_levels = SessionLevelStore(self.outside)
        self.versions = Snapshots(self.outside, VersionSnapshot)
        self.judged = JudgedStore(self.outside)
        self.snapshot = Snapshots(self.outside, Snapshot).snapshot
        """Look at everything that is known, as it is at one moment; for queries from outside, from any thread."""
        self.runs = RunStore(self.outside, self._version)
        try:
            migrate(opened, self._durable.engine)
            opened.opened(self._durable.engine)
        except BaseException:
            self.shutdown()
            raise

    def shutdown(self) -> None:
        for database in (self._pipeline, self._durable, self.outside):
            database.engine.dispose()
        self._database.close()

    def scrub(self, start: int) -> int | None:
        """Overwrite what is left of removed rows in a part of the file (`runtime.scrubbing`); return where the next one
        begins, None at the end."""
        return self._database.scrub(start)

    @property
    def used_bytes(self) -> int:
        """The bytes of the file that hold something."""
        with self._durable.refusing("read"):
            return self._database.used_bytes(self._durable.engine)

    def give_back(self, most: int) -> int:
        """Give at most `most` bytes that hold nothing back to the disk; return how many."""
        with self._durable.refusing("made smaller"):
            return self._database.give_back(self._durable.engine, most)

    def reach(self) -> None:
        """Raise Unavailable where the database does not answer."""
        with self.outside.reading() as connection:
            connection.execute(select(literal_column("1")))

    def take_duty(self) -> bool:
        """Return whether this process is the one to do what one has to do for all that use the store together. It stays
        so for `DUTY_LASTS` seconds from the call on."""
        with self._durable.refusing("locked"):
            return self._database.take_duty()

    def commit(self, commit: Commit) -> News:
        """Keep all of `commit`. Its evaluations come back, each with whether it is its trace's first that is not
        pending. With them come the scores of sessions that are over and only waited for these judgements. Raises
        Superseded, and Outdated where the same look-ups of links find something else now."""
        database = self._durable if commit.judgements else self._pipeline

        def write(connection: TenantConnection) -> News:
            self.claims.check(connection)
            # Who joins traces to conversations is alone (`is_apart`): what is found now stays so until this is written.
            if any(each.is_outdated for each in commit.looked_up):
                raise Outdated("another process has joined traces to the same conversations")
            if not self._writes_beside:
                self._trim(connection, commit)
            return write_commit(connection, commit, self.outbox, self._clock.now())

        # Before: what cannot be trimmed is no reason to commit again.
        if self._writes_beside and self._is_due("old", TRIM_EXCHANGES_EVERY):
            with self._writing() as connection:
                self._trim(connection, commit)
        names = written_by(commit)
        if is_apart(commit):
            news = database.write(names, write)
        else:
            with database.writing() as connection:
                news = write(connection)
        self.writes += 1
        return news

    def _trim(self, connection: TenantConnection, commit: Commit) -> None:
        """Forget some of what is old, as far as it is time to look for it."""
        now = self._clock.now()
        if commit.links and self._is_due("links", TRIM_LINKS_EVERY):
            trim_links(connection, now)
        if self._is_due("problems", TRIM_REPORTS_EVERY):
            trim_counts(connection, now)
        if self._is_due("exchanges", TRIM_EXCHANGES_EVERY) or commit.judgements:
            trim_exchanges(connection, before=now - self._retention)

    def save_checkpoint(self, offset: int) -> None:
        """Save the offset of the log below which everything is scored: on disk when it returns, with all that was
        committed before, as the log forgets what is below."""
        with self._writing("progress", durable=True) as connection:
            connection.upsert(progress, [{"checkpoint": offset}])

    def checkpoint(self) -> int:
        """Return the saved checkpoint; 0 for a new store."""
        with self._pipeline.reading() as connection:
            query = select(progress.c.checkpoint).where(own(progress))
            return connection.execute(query).scalar() or 0

    def known_traces(self, trace_ids: Sequence[str]) -> Mapping[str, tuple[int, frozenset[int]]]:
        """Return revision and log offsets of those of the traces that were scored before."""
        with self._pipeline.reading() as connection:
            rows = connection.execute(_KNOWN_TRACES, ids(trace_ids)).all()
        return {row.trace_id: (row.revision, frozenset(json.loads(row.offsets))) for row in rows}

    def stored_place(self, trace_id: str) -> StoredPlace | None:
        """Return the place of the stored revision of a trace; None where it is new."""
        with self._pipeline.reading() as connection:
            row = connection.execute(_STANDING, {"id": trace_id}).first()
        if row is None:
            return None
        return StoredPlace(
            session_id=row.session_id,
            place=(row.started_at, trace_id),
            revision=row.revision,
            pending=row.pending,
            effort=effort_from(row.effort),
        )

    def pending_jobs(
        self, *, before: int, after: str = "", limit: int = 64, subject: Subject = Subject.TRACE
    ) -> list[JudgeJob]:
        """Return the newest revisions that wait for the judge since before that time (ns), by their ids."""
        with self._pipeline.reading() as connection:
            return read_pending(connection, subject, before, after, limit)

    def without_goal(self, session_ids: Sequence[str]) -> list[SessionRecord]:
        """Return those of the sessions of which the judge was not asked since something was said in them."""
        with self._pipeline.reading() as connection:
            return read_without_goal(connection, session_ids)

    def session_revision(self, session_id: str) -> int | None:
        """Return the revision of a session; None where it is unknown."""
        with self._pipeline.reading() as connection:
            return read_session_revision(connection, session_id)

    def says_the_same(self, view: TraceView) -> bool:
        """Return whether the same was said and done in the stored revision of this trace; False where it is new."""
        with self._pipeline.reading() as connection:
            query = select(trace_views.c.view).where(own(trace_views), trace_views.c.trace_id == view.trace_id)
            stored = connection.execute(query).scalar()
        return stored is not None and says_the_same(stored, view)

    def parts(self, session_id: str) -> frozenset[Part | None]:
        """Return the parts of the sample that traces of the session belong to; None stands for those sampled out."""
        with self._pipeline.reading() as connection:
            return read_parts(connection, session_id)

    def sampled_out(self, session_id: str, limit: int) -> list[list[Evaluation]]:
        """Return the outcomes of a session that were sampled out, by trace: of its `limit` newest traces with any."""
        of_session, sampled_out = traces.c.session_id == session_id, outcomes.c.status == Status.SAMPLED_OUT
        with self._pipeline.reading() as connection:
            return read_judged(connection, [of_session], [sampled_out], limit)

    def session(self, session_id: str) -> StoredSession | None:
        """Return all that is needed to go on with a session; None where it is new."""
        with self._pipeline.reading() as connection:
            return read_session(connection, session_id)

    def session_traces(self, session_id: str) -> list[StoredTrace]:
        """Return all traces of a session without their answers, by start."""
        with self._pipeline.reading() as connection:
            return read_session_traces(connection, session_id)

    def neighbours(self, session_id: str, place: tuple[int, str], earlier: int, later: int) -> list[tuple[int, str]]:
        """Return the places of the traces of a session next to `place` (start, trace id), in order: at most so many
        that are earlier, and so many that are not."""
        with self._pipeline.reading() as connection:
            return read_neighbours(connection, session_id, place, earlier, later)

    def traces(self, trace_ids: Sequence[str]) -> list[StoredTrace]:
        """Return traces with their answers, by start."""
        with self._pipeline.reading() as connection:
            return read_traces(connection, trace_ids)

    def processes_in(self, session_id: str) -> frozenset[str]:
        """Return the processes that have spans in the newest traces of a session."""
        with self._pipeline.reading() as connection:
            newest = (
                select(traces.c.processes)
                .where(own(traces), traces.c.session_id == session_id)
                .order_by(traces.c.started_at.desc())
                .limit(PROCESSES_OF)
            )
            names = connection.execute(newest).scalars().all()
        return frozenset(process for processes in names for process in json.loads(processes))

    def live_sessions(self) -> list[str]:
        """Return the ids of the sessions that have not been over yet, or have gone on since they were judged."""
        query = select(sessions.c.session_id).where(own(sessions), sessions.c.finalized_at.is_(None))
        with self._pipeline.reading() as connection:
            return [*connection.execute(query).scalars(), *read_gone_on(connection)]

    def finalize(self, session_ids: Sequence[str]) -> News:
        """Mark that the sessions are over: those that were not before count now, with their scores. Where a session
        waits for the judge, its scores count with the commit of the last judgement."""
        params = ids(session_ids)
        are_over = (
            own(sessions),
            among(sessions.c.session_id, "ids"),
            sessions.c.finalized_at.is_(None),
        )
        with self._writing(*session_ids) as connection:
            self.claims.check(connection)
            over = connection.execute(select(sessions).where(*are_over), params).all()
            connection.execute(update(sessions).where(*are_over).values(finalized_at=self._clock.now()), params)
            final = count_sessions(connection, session_ids)
        return News(
            evaluations=final_scores(final),
            sessions=[_worst_of(row) for row in over],
            efforts=[(row.agent, effort_from(row.effort)) for row in over if row.agent is not None],
        )

    def efforts(self, limit: int) -> list[tuple[str, Effort]]:
        """Return the agents and efforts of the `limit` sessions that were over last, the oldest of them first."""
        query = select(sessions.c.agent, sessions.c.effort).where(
            own(sessions), sessions.c.finalized_at.is_not(None), sessions.c.agent.is_not(None)
        )
        with self._pipeline.reading() as connection:
            rows = connection.execute(query.order_by(sessions.c.finalized_at.desc()).limit(limit)).all()
        return [(row.agent, effort_from(row.effort)) for row in reversed(rows)]

    def report_run(self, report: RunReport) -> None:
        """Keep what came of a run, as of now where the report says no time. A repeated report changes nothing."""
        with self._writing("run_reports", durable=True) as connection:
            write_run_report(connection, report, now=self._clock.now())
        # Now and then: it looks at all reports, which are kept as long as the traces of their runs.
        if self._is_due("reports", TRIM_REPORTS_EVERY):
            with self._writing() as connection:
                trim_run_reports(connection, before=self._clock.now() - self._retention)

    def end_session(self, session_id: str) -> bool:
        """Mark a session as ended; False where it is unknown."""
        mine = update(sessions).where(own(sessions), sessions.c.session_id == session_id)
        with self._writing(session_id, durable=True) as connection:
            return connection.execute(mine.values(ended_at=self._clock.now())).rowcount > 0

    def label(self, *said: Label) -> None:
        """Keep what somebody says of a trace or a session, instead of what the same author said before."""
        now = self._clock.now()
        with self._writing(LABELS, durable=True) as connection:
            for label in said:
                write_label(connection, label, at=now)
            if self._is_due("labels", TRIM_REPORTS_EVERY):
                trim_labels(connection, before=now - self._retention)

    def _version(self) -> int:
        """Return a number that rises where something was written; each second, where others write, too."""
        return self.writes + (int(self._clock.monotonic()) if self._database.is_shared else 0)

    def _is_due(self, what: str, every: float) -> bool:
        """Return whether the last look for what is old was `every` seconds ago; the next one is from now on."""
        now = self._clock.monotonic()
        if now < self._next.get(what, 0.0):
            return False
        self._next[what] = now + every
        return True

    @contextmanager
    def _writing(self, *names: str, durable: bool = False) -> Iterator[TenantConnection]:
        """Write alone, or beside all but those who hold one of the same names."""
        database = self._durable if durable else self._pipeline
        with database.sharing(*names) if names else database.writing() as connection:
            yield connection
        self.writes += 1


# Made once: making one costs more than running it.
_KNOWN_TRACES = select(traces.c.trace_id, traces.c.revision, traces.c.offsets).where(
    own(traces), among(traces.c.trace_id, "ids")
)
_STANDING = select(
    traces.c.session_id,
    traces.c.started_at,
    traces.c.revision,
    traces.c.effort,
    exists()
    .where(
        own(outcomes),
        outcomes.c.subject == literal_column(f"'{Subject.TRACE}'"),
        outcomes.c.subject_id == traces.c.trace_id,
        outcomes.c.status == literal_column(f"'{Status.PENDING}'"),
    )
    .label("pending"),
).where(own(traces), traces.c.trace_id == bindparam("id"))


def _worst_of(row: Row[Any]) -> WorstFinding:
    """Return a session with its worst finding; it counts for its first service and its newest version."""
    counts = {Severity.ERROR: row.errors, Severity.WARNING: row.warnings, Severity.INFO: row.infos}
    services, versions = json.loads(row.services), json.loads(row.versions)
    return WorstFinding(
        worst(severity for severity, count in counts.items() if count),
        row.agent,
        services[0] if services else None,
        versions[-1] if versions else None,
        row.environment,
    )
