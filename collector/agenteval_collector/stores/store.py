"""The store of a tenant: its writes, the look-ups of the pipeline, and the parts for other components."""

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Row, literal_column, select, update

from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.kept_findings import worst
from agenteval_collector.model.labels import Label
from agenteval_collector.model.news import EventsOf, News, WorstFinding
from agenteval_collector.model.runs import RunReport
from agenteval_collector.model.sessions import SessionLevel
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import Outdated
from agenteval_collector.stores import judged_outcomes, pipeline_reads
from agenteval_collector.stores.access import Snapshots, TenantConnection, TenantDatabase, ids, look_up
from agenteval_collector.stores.alarms import AlarmStore
from agenteval_collector.stores.claims import Claims
from agenteval_collector.stores.commits import count_sessions, is_independent, write_commit, written_by
from agenteval_collector.stores.conversations import ConversationStore, trim_links
from agenteval_collector.stores.damaged_rows import DamagedRows
from agenteval_collector.stores.deletions import DeletionStore
from agenteval_collector.stores.engines.ports import Database
from agenteval_collector.stores.engines.sqlite import SqliteFile
from agenteval_collector.stores.findings import FindingStore
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.judge_canaries import JudgeCanaryStore
from agenteval_collector.stores.judge_exchanges import JudgeAnswerStore, trim_exchanges
from agenteval_collector.stores.judge_ledger import JudgeLedgerStore
from agenteval_collector.stores.labels import LABELS, trim_labels, write_label
from agenteval_collector.stores.migration import migrate
from agenteval_collector.stores.outbox import OutboxStore
from agenteval_collector.stores.problem_list import ProblemMarks
from agenteval_collector.stores.problem_moves import ProblemMoves
from agenteval_collector.stores.problems import trim_counts
from agenteval_collector.stores.quarantine import QuarantineStore
from agenteval_collector.stores.regressions import VersionQueries
from agenteval_collector.stores.rows import effort_from
from agenteval_collector.stores.runs import RunQueries, trim_run_reports, write_run_report
from agenteval_collector.stores.schema import own, progress, sessions
from agenteval_collector.stores.sender_habits import HabitStore
from agenteval_collector.stores.session_levels import read_levels, read_past
from agenteval_collector.stores.session_turns import SessionTurns
from agenteval_collector.stores.snapshot import Snapshot
from otel_agenteval.finding import Severity

TRIM_EXCHANGES_EVERY: Final = 60.0
"""Seconds between searches for old exchanges while no judgement comes. A search costs as much as keeping a trace."""
TRIM_REPORTS_EVERY: Final = 3600.0
"""Seconds between searches for old run reports, labels, and counts of problems."""
TRIM_LINKS_EVERY: Final = 600.0
"""Seconds between searches for old links of conversations."""


class Store:
    """The rows of a tenant in a database; a path is that of a SQLite file. `commit` and the look-ups belong to the
    pipeline's threads. Reports may come from any thread.

    Three things are durable: where a replay begins, what came from outside (reports), and what was paid for
    (judgements). What a replay of the log finds again for nothing may be lost with the machine.

    What the judge was asked is kept for `retention` seconds, and forgotten by the commits after that. Reports of runs
    without a trace are kept as long, and forgotten by later reports. `events_of` makes the events that wait in the
    outbox. Every method raises Unavailable if the database refuses.
    """

    def __init__(
        self,
        database: Path | Database,
        clock: Clock,
        *,
        tenant: str = DEFAULT_TENANT,
        retention: float = 24 * 3600.0,
        events_of: EventsOf,
    ) -> None:
        self._clock = clock
        self._retention = round(retention * 1e9)
        self._next: dict[str, float] = {}
        opened = self._database = SqliteFile(database) if isinstance(database, Path) else database
        self._writes_beside = opened.writer_locks is not None
        self.damaged = DamagedRows()
        """The rows that could not be read."""
        self._pipeline = TenantDatabase(opened, opened.engine(durable=False, pool_size=4), tenant, self.damaged)
        self._durable = TenantDatabase(opened, opened.engine(durable=True, pool_size=1), tenant, self.damaged)
        self.outside = TenantDatabase(opened, opened.engine(durable=False, pool_size=8), tenant, self.damaged)
        """For queries from outside. However many there are, the pipeline has connections of its own."""
        self.files = opened.files(self._durable.engine)
        """The files that hold the rows; none if a server does."""
        self.writes = 0
        """Counts the writes. It may also rise if nothing was changed."""
        self.ledger = JudgeLedgerStore(self._pipeline)
        self.answers = JudgeAnswerStore(self._durable, clock)
        self.canaries = JudgeCanaryStore(self._pipeline)
        self.outbox = OutboxStore(self._pipeline, events_of)
        self.findings = FindingStore(self._pipeline, self.outbox)
        self.habits = HabitStore(self._pipeline)
        self.conversations = ConversationStore(self._pipeline)
        self.turns = SessionTurns(self._pipeline)
        self.problems = ProblemMarks(self._durable, clock)
        self.alarms = AlarmStore(self._pipeline, clock)
        self.problem_moves = ProblemMoves(self._durable, clock)
        self.deletions = DeletionStore(self._durable, clock)
        self.quarantine = QuarantineStore(self._durable, self.damaged)
        self.claims = Claims(self._durable)
        self.versions = Snapshots(self.outside, VersionQueries, self._version)
        self.judged = judged_outcomes.JudgedStore(self.outside)
        self.snapshot = Snapshots(self.outside, Snapshot, self._version).snapshot
        """Opens a view of everything that is known at one moment. For queries from outside, from any thread."""
        self.runs = Snapshots(self.outside, RunQueries, self._version)
        try:
            migrate(opened, self._durable.engine)
        except BaseException:
            self.shutdown()
            raise

    def shutdown(self) -> None:
        for database in (self._pipeline, self._durable, self.outside):
            database.engine.dispose()
        self._database.close()

    def reading(self) -> AbstractContextManager[TenantConnection]:
        """Connect for the look-ups of the pipeline."""
        return self._pipeline.reading()

    def reach(self) -> None:
        """Raise Unavailable if the database does not answer."""
        self.outside.rows(select(literal_column("1")))

    def take_duty(self) -> bool:
        """Return whether this process is on duty: it does the work that one process does for all that use the store
        together. It stays on duty for `DUTY_LASTS` seconds from this call."""
        with self._durable.refusing("locked"):
            return self._database.take_duty()

    def commit(self, commit: Commit) -> News:
        """Keep all of `commit`, and return its news. Each evaluation in it says whether instruments count it now.

        Scores of sessions that are over and only waited for these judgements are part of the news. Raises Superseded.
        Raises Outdated if the look-ups of links on which the commit rests would find something else now.
        """
        database = self._durable if commit.judgements else self._pipeline

        def write(connection: TenantConnection) -> News:
            self.claims.check(connection)
            # A commit that joins traces to conversations writes alone (`is_independent`), so nobody changes the links
            # between this look-up and the write.
            if any(map(self.conversations.is_outdated, commit.looked_up)):
                raise Outdated("another process has joined traces to the same conversations")
            if not self._writes_beside:
                self._trim(connection, commit)
            return write_commit(connection, commit, self.outbox, self._clock.now())

        # In a transaction before the commit: a failure to trim is no reason to commit again.
        if self._writes_beside and self._is_due("old", TRIM_EXCHANGES_EVERY):
            with self._writing() as connection:
                self._trim(connection, commit)
        if is_independent(commit):
            news = database.write(written_by(commit), write)
        else:
            with database.writing() as connection:
                news = write(connection)
        self.writes += 1
        return news

    def _trim(self, connection: TenantConnection, commit: Commit) -> None:
        """Forget some of the old rows, of each sort that is due."""
        now = self._clock.now()
        if commit.links and self._is_due("links", TRIM_LINKS_EVERY):
            trim_links(connection, now)
        if self._is_due("problems", TRIM_REPORTS_EVERY):
            trim_counts(connection, now)
        if self._is_due("exchanges", TRIM_EXCHANGES_EVERY) or commit.judgements:
            trim_exchanges(connection, before=now - self._retention)

    def save_checkpoint(self, offset: int) -> None:
        """Save the offset of the log below which everything is scored. It is on disk when this returns, with all
        earlier commits, because the log forgets what is below the offset."""
        with self._writing("progress", durable=True) as connection:
            connection.upsert(progress, [{"checkpoint": offset}])

    checkpoint = look_up(pipeline_reads.read_checkpoint)
    known_traces = look_up(pipeline_reads.read_known_traces)
    stored_place = look_up(pipeline_reads.read_place)
    says_the_same = look_up(pipeline_reads.says_the_stored)
    session = look_up(pipeline_reads.read_session)
    session_revision = look_up(pipeline_reads.read_session_revision)
    session_traces = look_up(pipeline_reads.read_session_traces)
    neighbours = look_up(pipeline_reads.read_neighbours)
    traces = look_up(pipeline_reads.read_traces)
    processes_in = look_up(pipeline_reads.read_processes)
    processes_of = look_up(pipeline_reads.read_processes_of)
    efforts = look_up(pipeline_reads.read_efforts)
    past_sessions = look_up(read_past)
    pending_jobs = look_up(judged_outcomes.read_pending)
    without_goal = look_up(judged_outcomes.read_without_goal)
    live_sessions = look_up(judged_outcomes.read_live_sessions)
    parts = look_up(judged_outcomes.read_parts)
    sampled_out = look_up(judged_outcomes.read_sampled_out)

    def session_levels(self) -> list[SessionLevel]:
        """Return the levels of all sessions that go on, for queries from outside."""
        with self.outside.snapshot() as connection:
            return read_levels(connection)

    def finalize(self, session_ids: Sequence[str]) -> News:
        """Mark the sessions as over. Those that were not over before count now, with their scores. If a session
        waits for the judge, its scores count with the commit of the last judgement."""
        params = ids(session_ids)
        are_over = own(sessions), among(sessions.c.session_id, "ids"), sessions.c.finalized_at.is_(None)
        with self._writing(*session_ids) as connection:
            self.claims.check(connection)
            over = connection.execute(select(sessions).where(*are_over), params).all()
            connection.execute(update(sessions).where(*are_over).values(finalized_at=self._clock.now()), params)
            final = count_sessions(connection, session_ids)
        return News(
            evaluations=final,
            sessions=[_worst_of(row) for row in over],
            efforts=[
                (AgentKey(row.agent, row.service or None), effort_from(row.effort))
                for row in over
                if row.agent is not None
            ],
        )

    def report_run(self, report: RunReport) -> None:
        """Keep a report on a run. If it gives no time, it counts as made now. A repeated report changes nothing."""
        with self._writing("run_reports", durable=True) as connection:
            write_run_report(connection, report, now=self._clock.now())
        # Only now and then, because it looks at all reports, which are kept as long as the traces of their runs.
        if self._is_due("reports", TRIM_REPORTS_EVERY):
            with self._writing() as connection:
                trim_run_reports(connection, before=self._clock.now() - self._retention)

    def end_session(self, session_id: str) -> bool:
        """Mark a session as ended. Return False if it is unknown."""
        mine = update(sessions).where(own(sessions), sessions.c.session_id == session_id)
        with self._writing(session_id, durable=True) as connection:
            return connection.execute(mine.values(ended_at=self._clock.now())).rowcount > 0

    def label(self, *labels: Label) -> None:
        """Keep what somebody says of a trace or a session, in place of what the same author said before."""
        now = self._clock.now()
        with self._writing(LABELS, durable=True) as connection:
            for label in labels:
                write_label(connection, label, at=now)
            if self._is_due("labels", TRIM_REPORTS_EVERY):
                trim_labels(connection, before=now - self._retention)

    def note_write(self) -> None:
        """Note a write by a part of the store, so that figures are computed anew."""
        self.writes += 1

    def _version(self) -> int:
        """Return a number that rises when something was written.

        If other processes write too, it rises each second, because nobody tells us of their writes.
        """
        return self.writes + (int(self._clock.monotonic()) if self._database.is_shared else 0)

    def _is_due(self, what: str, every: float) -> bool:
        """Return whether the last search for old rows of this sort was at least `every` seconds ago. If so, the next
        interval begins now."""
        now = self._clock.monotonic()
        if now < self._next.get(what, 0.0):
            return False
        self._next[what] = now + every
        return True

    @contextmanager
    def _writing(self, *names: str, durable: bool = False) -> Iterator[TenantConnection]:
        """Connect for one transaction. Without names, no other transaction writes meanwhile. With names, others write
        beside it if they hold none of the same names."""
        database = self._durable if durable else self._pipeline
        with database.sharing(*names) if names else database.writing() as connection:
            yield connection
        self.writes += 1


def _worst_of(row: Row[Any]) -> WorstFinding:
    """Return what a session counts as: its worst severity, its agent, its newest version."""
    counts = {Severity.ERROR: row.errors, Severity.WARNING: row.warnings, Severity.INFO: row.infos}
    versions = json.loads(row.versions)
    return WorstFinding(
        worst(severity for severity, count in counts.items() if count),
        row.agent,
        row.service or None,
        versions[-1] if versions else None,
        row.environment,
    )
