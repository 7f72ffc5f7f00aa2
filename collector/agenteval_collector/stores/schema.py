"""The tables. A test compares them with those that the migrations make."""

import operator
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa

metadata = sa.MetaData()

# Texts sort by code points in every database, because they are compared with what Python sorts.
_BY_CODE_POINT: Final = "C"
String = sa.String().with_variant(sa.String(collation=_BY_CODE_POINT), "postgresql")
Text = sa.Text().with_variant(sa.Text(collation=_BY_CODE_POINT), "postgresql")

JUDGED_FAILURE = sa.text("success = false AND method = 'llm' AND subject = 'trace'")
"""The condition for a judge's score of a trace below its threshold. It is written as in the index, because databases
match constants only."""
JUDGED_AT_RANDOM = sa.text("part = 'random' AND method = 'llm' AND success IS NOT NULL")
"""The condition for a pass or fail by the judge of something drawn at random, written as in its index."""
JUDGED_IN_VAIN = sa.text("part = 'random' AND method = 'llm' AND status IN ('failed', 'over_budget')")
"""The condition for an outcome that was drawn at random and could not be scored, written as in its index."""
JUDGED_FAILED: Final = sa.text("method = 'llm' AND status IN ('failed', 'over_budget')")
"""The condition for an outcome that the judge could not score, however it was drawn, written as in its index."""

ON_CONFLICT: Final = "on_conflict"
"""A key in a column's `info`. It leads to a function that makes the value to keep, of the old value and that of a new
row with the same key. By default the new value replaces the old one."""
KEEP: Final = {ON_CONFLICT: None}
"""The old value stays."""
OR: Final = {ON_CONFLICT: operator.or_}
"""A value that was true stays true."""
ADD: Final = {ON_CONFLICT: operator.add}
"""The value becomes the sum of both."""
FILL: Final = {ON_CONFLICT: lambda old, new: sa.func.coalesce(new, old)}
"""The new value, unless it is null."""
FIRST: Final = {ON_CONFLICT: sa.func.coalesce}
"""The old value, unless it is null."""

PARTED_BY: Final = "parted_by"
"""A key in a table's `info`. It leads to the column with the time (ns) of a row, by which a database may keep old rows
apart from new ones. Code that forgets rows by age asks the database first (`TenantConnection.drop_old`)."""


def own(table: sa.FromClause) -> sa.ColumnElement[bool]:
    """Make the condition that a row belongs to the tenant of the connection (`access.TenantConnection`)."""
    return table.c.tenant == sa.bindparam("own")


def matching(one: sa.FromClause, other: sa.FromClause, key: str, its: str | None = None) -> sa.ColumnElement[bool]:
    """Make the condition that two rows are of one tenant, and that `key` of the one is `its` of the other; by default,
    both have the same key."""
    return (one.c.tenant == other.c.tenant) & (one.c[key] == other.c[its or key])


def data_columns(table: sa.Table) -> list[sa.Column[Any]]:
    """Return the columns of a table except the tenant."""
    return [column for column in table.columns if column.name != "tenant"]


def upsert_of(table: sa.Table, insert: Callable[[sa.Table], Any]) -> Any:
    """Return the statement that inserts a row, or updates the one with its key. `insert` is the dialect's function."""
    statement = insert(table)
    changes = {
        column.name: change(column, statement.excluded[column.name])
        for column in table.columns
        if not column.primary_key and (change := column.info.get(ON_CONFLICT, lambda _, new: new)) is not None
    }
    return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=changes)


def _table(name: str, key: str, *items: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    """Make a table whose rows belong to a tenant. The tenant and the columns in `key` are its primary key."""
    tenant = sa.Column("tenant", String, nullable=False)
    return sa.Table(name, metadata, tenant, *items, sa.PrimaryKeyConstraint("tenant", *key.split()), **options)


def _complete(table: sa.Table, dialect: str, *statements: str) -> None:
    """Let these statements follow the one that makes a table, in databases of this dialect."""
    for statement in statements:
        sa.event.listen(table, "after_create", sa.DDL(statement).execute_if(dialect=dialect))  # type: ignore[no-untyped-call]


def _index(name: str, columns: str, where: sa.TextClause | None = None) -> sa.Index:
    """Make an index of the tenant and these columns; with a condition, only of the rows that fulfil it."""
    return sa.Index(name, "tenant", *columns.split(), sqlite_where=where, postgresql_where=where)


def _required(kind: Any, names: str, info: dict[Any, Any] | None = None) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False, info=info) for name in names.split()]


def _optional(kind: Any, names: str, info: dict[Any, Any] | None = None) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, info=info) for name in names.split()]


traces = _table(
    "traces",
    "trace_id",
    *_required(String, "trace_id session_id"),
    *_required(sa.BigInteger, "started_at scored_at"),
    sa.Column("continues_turn", sa.Boolean, nullable=False, comment="whether its turn began in the trace before it"),
    sa.Column("turn_goes_on", sa.Boolean, nullable=False, comment="whether its last turn goes on in a later trace"),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("revised", Text, nullable=False, comment="JSON: fields in which its revision differs from its view"),
    sa.Column("offsets", Text, nullable=False, comment="JSON: the requests of the log it was read from"),
    *_optional(String, "agent service service_version task_id run_id condition"),
    sa.Column("died", Text, comment="that its agent died in the middle, in a sentence"),
    sa.Column("processes", Text, nullable=False, comment="JSON: those with spans in it, each behind its key's name"),
    sa.Column("said", Text, nullable=False, comment="what was said in it, casefolded, to be searched"),
    sa.Column("effort", Text, nullable=False, comment="JSON: steps, tokens, seconds, usd"),
    sa.Column("has_content", sa.Boolean, nullable=False, comment="whether what was said in it is kept"),
    _index("traces_by_age", "has_content scored_at"),
    _index("traces_by_session", "session_id started_at"),
    _index("traces_by_run", "task_id run_id condition"),
    _index("traces_by_version", "agent service service_version session_id started_at"),
    _index("traces_died", "session_id started_at", sa.text("died IS NOT NULL")),
)

CAME: Final = sa.literal_column("traces.rowid", sa.BigInteger)
"""The number of a trace, in the order in which traces came. A revision keeps the number of its trace."""

SAID_INDEX: Final = "said_index"
"""In SQLite, an index of `traces.said` by pieces of three characters, kept by triggers. It knows traces by their
rowids, so it must be made again after a vacuum of the file. It does not know where a piece stands, and is a third as
large for that."""
_FORGET_SAID: Final = f"INSERT INTO {SAID_INDEX}({SAID_INDEX}, rowid, said) VALUES ('delete', old.rowid, old.said);"
_KEEP_SAID: Final = f"INSERT INTO {SAID_INDEX}(rowid, said) VALUES (new.rowid, new.said);"
_complete(
    traces,
    "sqlite",
    f"CREATE VIRTUAL TABLE {SAID_INDEX} USING "
    "fts5(said, content='traces', tokenize='trigram', detail='none', columnsize=0)",
    f"CREATE TRIGGER said_came AFTER INSERT ON traces BEGIN {_KEEP_SAID} END",
    f"CREATE TRIGGER said_went AFTER DELETE ON traces BEGIN {_FORGET_SAID} END",
    "CREATE TRIGGER said_changed AFTER UPDATE OF said ON traces WHEN old.said IS NOT new.said "
    f"BEGIN {_FORGET_SAID} {_KEEP_SAID} END",
)
# SQLite numbers its rows by itself, as they come; PostgreSQL needs this column. A revision keeps the number in both.
_complete(
    traces,
    "postgresql",
    "ALTER TABLE traces ADD COLUMN rowid BIGINT GENERATED ALWAYS AS IDENTITY",
    "CREATE UNIQUE INDEX traces_by_rowid ON traces (rowid)",
)

# A table of its own, because SQLite writes whole rows: for a revision that says the same, the view is not written
# again.
trace_views = _table(
    "trace_views",
    "trace_id",
    *_required(String, "trace_id"),
    # Before the view, which may be long: the database reads a row up to the last column that is asked for.
    sa.Column("unasked", Text, comment="JSON: the outcomes of judged evaluators that nobody is asked about"),
    sa.Column("view", Text, nullable=False, comment="JSON: the trace without outcomes and findings"),
)

OF_TRACE = matching(trace_views, traces, "trace_id")
"""The condition that joins a trace with its view."""

# A later revision replaces the row. The same revision twice is one row.
outcomes = _table(
    "outcomes",
    "subject subject_id name method version",
    sa.Column("subject", String, nullable=False, comment="trace or session"),
    *_required(String, "subject_id name method version session_id status"),
    *_optional(String, "trace_id span_id agent service service_version environment model part error_type"),
    *_required(sa.Integer, "revision"),
    *_required(sa.BigInteger, "evaluated_at"),
    *_optional(sa.Float, "score threshold coverage"),
    *_optional(sa.Boolean, "success"),
    sa.Column("reason", Text, nullable=False),
    sa.Column("metadata", Text, nullable=False, comment="JSON"),
    # Whether instruments have counted it. They have not while it is pending for the first time, or of a session that
    # goes on.
    sa.Column("counted", sa.Boolean, nullable=False, info=OR),
    _index("outcomes_by_session", "session_id name score"),
    # Has all columns that are asked for. Otherwise SQLite prefers the index of all outcomes of a session.
    _index("outcomes_below", "session_id subject_id subject method success", JUDGED_FAILURE),
    # Has all columns that a rate needs. Otherwise rows would be read from all over the table.
    _index(
        "outcomes_random",
        "name agent service service_version evaluated_at"
        " subject subject_id session_id success model threshold part method",
        JUDGED_AT_RANDOM,
    ),
    _index("outcomes_in_vain", "name agent service service_version evaluated_at", JUDGED_IN_VAIN),
    _index("outcomes_pending", "subject subject_id", sa.text("status = 'pending'")),
)

# Without this index, asking the judge again waits for seconds at ten million traces. SQLite goes without it, because
# commits would take a tenth longer.
_complete(
    outcomes, "postgresql", f"CREATE INDEX outcomes_failed ON outcomes (tenant, evaluated_at) WHERE {JUDGED_FAILED}"
)

sessions = _table(
    "sessions",
    "session_id",
    *_required(String, "session_id"),
    *_optional(String, "user_id agent environment"),
    sa.Column("service", String, nullable=False, comment="that its agent runs in; empty: not named"),
    sa.Column("services", Text, nullable=False, comment="JSON: names, in order of appearance"),
    sa.Column("versions", Text, nullable=False, comment="JSON, in order of appearance"),
    sa.Column("started_at", sa.BigInteger, nullable=False),
    sa.Column("last_seen_at", sa.BigInteger, nullable=False, comment="when its newest telemetry was received"),
    sa.Column("trace_count", sa.Integer, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False, comment="rises with what was said in it"),
    sa.Column("effort", Text, nullable=False, comment="JSON: what its traces took together"),
    sa.Column("is_blind", sa.Boolean, nullable=False, comment="nothing of it could be looked at"),
    # A session that goes on still had its scores counted, and was still reported ended.
    sa.Column("finalized_at", sa.BigInteger, comment="when it was over for the first time", info=KEEP),
    sa.Column("ended_at", sa.BigInteger, comment="when it was reported ended", info=KEEP),
    *_required(sa.Integer, "errors warnings infos"),
    sa.Column("attention", sa.Integer, nullable=False, comment="how soon it should be looked at"),
    _index("sessions_by_last_seen", "last_seen_at session_id"),
    _index("sessions_by_end", "finalized_at"),
    _index("sessions_by_agent", "agent last_seen_at"),
    _index("sessions_by_service", "agent service last_seen_at"),
    _index("sessions_by_user", "user_id", sa.text("user_id IS NOT NULL")),
    _index("sessions_by_attention", "attention last_seen_at session_id"),
)

# A table of its own, because lists read the rows of sessions. A row has the sums over the stored traces of its session.
# Whatever moves traces to a session, or from it, other than new traces, deletes the row.
session_sums = _table(
    "session_sums",
    "session_id",
    *_required(String, "session_id"),
    sa.Column("sums", Text, nullable=False, comment="JSON: counts and exact sums"),
    sa.Column("risks", sa.LargeBinary, nullable=False, comment="the risk of each of its traces, sorted"),
)

# A second report of the same time adds to the first. An empty agent or version was not given.
run_reports = _table(
    "run_reports",
    "task_id run_id condition agent service_version reported_at sender",
    *_required(String, "task_id run_id condition agent service_version"),
    sa.Column("sender", String, nullable=False, comment="the key whose run it is about; empty: anybody's"),
    *_required(sa.BigInteger, "reported_at"),
    *_optional(sa.Boolean, "success", FILL),
    *_optional(sa.Float, "confidence", FILL),
    *_optional(String, "session_id", FILL),
    _index("run_reports_by_time", "reported_at"),
)

run_traces = _table(
    "run_traces",
    "trace_id",
    *_required(String, "trace_id task_id run_id condition session_id"),
    *_optional(String, "agent service service_version"),
    *_required(sa.BigInteger, "started_at"),
    sa.Column("success", sa.Boolean, comment="as its spans say"),
    sa.Column("senders", Text, nullable=False, comment="the keys that it came with, a space around each"),
    sa.Column("facts", Text, nullable=False, comment="JSON: what else the trace adds to its run"),
    _index("run_traces_by_run", "task_id run_id condition started_at"),
    _index("run_traces_by_version", "agent service service_version started_at"),
)

sender_habits = _table(
    "sender_habits",
    "digest",
    sa.Column("digest", String, nullable=False, comment="of the sender, and of what may come after its spans"),
    sa.Column("history", String, nullable=False, comment="of its last traces, oldest first: + came, - did not"),
)

progress = _table(
    "progress",
    "",
    sa.Column("checkpoint", sa.BigInteger, nullable=False, comment="offset of the log below which all is scored"),
)

claims = _table(
    "claims",
    "partition",
    sa.Column(
        "partition", sa.Integer, nullable=False, comment="of the topic of traces, whose sessions a process evaluates"
    ),
    sa.Column("generation", sa.BigInteger, nullable=False, comment="rises with each process that takes it over"),
)

deletions = _table(
    "deletions",
    "deletion_id",
    *_required(String, "deletion_id"),
    sa.Column("what", Text, comment="JSON: the session, the user or the time; null once it is done"),
    sa.Column("asked_by", String),
    *_required(sa.BigInteger, "asked_at"),
    *_optional(sa.BigInteger, "done_at"),
    sa.Column("removed", Text, nullable=False, comment="JSON: how much of what"),
)

# The traces of deletions under way that the log may still hold.
erasures = _table(
    "erasures",
    "trace_id deletion_id",
    *_required(String, "trace_id deletion_id"),
    sa.Column("last", sa.BigInteger, nullable=False, comment="the last offset of the log that may hold them"),
)

quarantine = _table(
    "quarantine",
    "item_id",
    *_required(String, "item_id"),
    sa.Column("kind", String, nullable=False, comment="request, trace or row"),
    sa.Column("key", String, nullable=False, comment="among those of its kind"),
    sa.Column("trace_id", String, comment="null: it is no trace"),
    *_required(sa.BigInteger, "since"),
    sa.Column("size", sa.BigInteger, comment="in bytes; null: it was not measured"),
    sa.Column("reason", Text, nullable=False, comment="a sentence of ours, without content"),
    sa.Column("is_retried", sa.Boolean, nullable=False, comment="somebody wants it to be tried again"),
    _index("quarantine_by_trace", "trace_id", sa.text("trace_id IS NOT NULL")),
)

judge_ledger = _table(
    "judge_ledger",
    "hour model",
    sa.Column("hour", sa.BigInteger, nullable=False, comment="hours since the Unix epoch"),
    *_required(String, "model"),
    *_required(sa.BigInteger, "requests input_tokens output_tokens", ADD),
    *_required(sa.Float, "usd", ADD),
)

# Of what is kept for a day, this takes by far the most bytes. The time is in the key, because a database that parts
# rows by the time requires that.
judge_exchanges = _table(
    "judge_exchanges",
    "subject subject_id revision position asked_at",
    sa.Column("subject", String, nullable=False, comment="trace or session"),
    *_required(String, "subject_id question version model"),
    *_required(sa.Integer, "revision"),
    sa.Column("position", sa.Integer, nullable=False, comment="0, 1, ... in the order of asking"),
    *_required(sa.BigInteger, "asked_at"),
    *_required(Text, "instructions"),
    sa.Column("data", sa.LargeBinary, nullable=False, comment="UTF-8, compressed by zlib"),
    *_optional(Text, "reply problem"),
    *_optional(sa.Integer, "input_tokens output_tokens"),
    *_optional(sa.Float, "usd seconds"),
    *_required(sa.Boolean, "cached"),
    _index("judge_exchanges_by_age", "asked_at"),
    info={PARTED_BY: "asked_at"},
    postgresql_partition_by="RANGE (asked_at)",
)

# Found by the question, and deleted with the trace or session that was asked about.
judge_answers = _table(
    "judge_answers",
    "key",
    sa.Column("key", String, nullable=False, comment="a digest of all that the answer depends on"),
    sa.Column("subject", String, nullable=False, comment="trace or session"),
    *_required(String, "subject_id model"),
    *_required(sa.BigInteger, "kept_at"),
    sa.Column("reply", Text, nullable=False, comment="JSON"),
    *_optional(sa.Float, "temperature"),
    _index("judge_answers_by_age", "kept_at"),
    _index("judge_answers_by_subject", "subject subject_id"),
)

judge_canaries = _table(
    "judge_canaries",
    "trace_id",
    *_required(String, "trace_id session_id"),
    *_required(sa.Integer, "revision"),
    *_required(sa.BigInteger, "chosen_at"),
    sa.Column("frozen", sa.LargeBinary, nullable=False, comment="recorded content: the trace as the judge is shown it"),
)

# A row is about an evaluator and a way to ask it. The first answer on a trace stays beside the newest one, and stays
# after the canary.
canary_answers = _table(
    "canary_answers",
    "trace_id name version model",
    *_required(String, "trace_id name version model"),
    *_required(sa.Float, "threshold"),
    *_optional(sa.Float, "first", FIRST),
    *_required(sa.BigInteger, "first_at", KEEP),
    *_optional(sa.Float, "last"),
    *_required(sa.BigInteger, "last_at"),
    *_required(Text, "reason"),
)

labels = _table(
    "labels",
    "trace_id session_id name source author sender",
    sa.Column("trace_id", String, nullable=False, comment="empty: it is about a session"),
    sa.Column("session_id", String, nullable=False, comment="empty: it is about a trace"),
    *_required(String, "name author"),
    sa.Column("sender", String, nullable=False, comment="the key of one who may only write; empty: of any other"),
    *_required(sa.Float, "value"),
    *_optional(Text, "note"),
    sa.Column("source", String, nullable=False, comment="person, user or evaluator"),
    # A correction of the label of a drawn trace leaves the label drawn.
    sa.Column("drawn", sa.Boolean, nullable=False, comment="whether it was drawn at random to be labelled", info=OR),
    *_required(sa.BigInteger, "labelled_at"),
    _index("labels_by_session", "session_id", sa.text("trace_id = ''")),
)

conversations = _table(
    "conversations",
    "trace_id",
    sa.Column("trace_id", String, nullable=False, comment="of a trace that messages may join to others"),
    *_required(String, "session_id"),
    sa.Column("service", String, nullable=False, comment="empty: not named"),
    *_required(sa.BigInteger, "started_at ended_at kept_at"),
    sa.Column("named", String, comment="the session's id that it names itself"),
    sa.Column(
        "follows", sa.LargeBinary, comment="digest of what it goes on from, one of the next three of another trace"
    ),
    sa.Column("said", sa.LargeBinary, comment="digest of all that was said up to its last reply"),
    sa.Column("reply", sa.LargeBinary, comment="digest of that reply's id"),
    sa.Column("calls", sa.LargeBinary, comment="digest of the ids of the calls that it asks for"),
    sa.Column("answered", sa.Boolean, nullable=False, comment="whether the model replied"),
    sa.Column("parent", String, comment="the trace that it goes on from"),
    *(
        _index(f"conversations_by_{key}", f"service {key} started_at", sa.text(f"{key} IS NOT NULL"))
        for key in ("follows", "said", "reply", "calls")
    ),
    _index("conversations_by_session", "session_id", sa.text("follows = reply")),
    _index("conversations_by_age", "service kept_at"),
)

findings = _table(
    "findings",
    "trace_id kind span_id nth",
    *_required(String, "trace_id kind"),
    sa.Column("span_id", String, nullable=False, comment="empty where no span shows it"),
    sa.Column("nth", sa.Integer, nullable=False, comment="0, 1, ... among those of one kind on one span"),
    sa.Column("session_id", String, nullable=False, comment="as far as it is known; else the trace's id"),
    sa.Column("turn", sa.Integer, comment="from 0"),
    sa.Column("severity", String, nullable=False, comment="error, warning or info"),
    sa.Column("mode", String, comment="observe or alarm: it was told live; else null"),
    *_optional(String, "agent tool service service_version environment"),
    sa.Column("reason", Text, nullable=False),
    sa.Column("metadata", Text, nullable=False, comment="JSON"),
    *_required(sa.BigInteger, "found_at"),
    sa.Column("counted", sa.Boolean, nullable=False, comment="whether instruments and events have told of it"),
    _index("findings_by_session", "session_id severity kind"),
    _index("findings_told", "found_at", sa.text("mode IS NOT NULL")),
    _index("findings_uncounted", "found_at", sa.text("counted = false")),
)

outbox = _table(
    "outbox",
    "event_id",
    *_required(String, "event_id session_id"),
    sa.Column("trace_id", String, nullable=False, comment="empty: it is about no trace"),
    sa.Column("span_id", String, nullable=False, comment="empty: it is about no span"),
    *_required(sa.BigInteger, "at"),
    sa.Column("attributes", Text, nullable=False, comment="JSON"),
    _index("outbox_by_time", "at"),
)

problems = _table(
    "problems",
    "problem_id",
    *_required(String, "problem_id kind"),
    *_optional(String, "agent service tool"),
    sa.Column("shape", Text, nullable=False, comment="of the error; empty where there is none"),
    sa.Column("severity", String, nullable=False, comment="the worst of its occurrences"),
    *_required(sa.BigInteger, "first_seen last_seen"),
    *_required(sa.Integer, "traces sessions"),
    *_required(sa.Float, "usd seconds"),
    sa.Column("regressed_at", sa.BigInteger, comment="when it came back after it was resolved"),
    *_optional(sa.BigInteger, "resolved_at muted_until"),
    *_optional(String, "resolved_by muted_by"),
    _index("problems_by_kind", "kind agent service tool"),
)

# The occurrences that a problem's row adds up. A change takes from that row only what it added before.
problem_traces = _table(
    "problem_traces",
    "problem_id subject_id",
    *_required(String, "problem_id subject_id"),
    sa.Column("trace_id", String, comment="null: the subject is a session, and none of its traces is named"),
    *_required(String, "session_id severity"),
    *_optional(String, "service_version"),
    *_required(sa.BigInteger, "seen_at"),
    *_required(sa.Float, "usd seconds"),
    sa.Column("cause", Text, nullable=False, comment="JSON: the step at which it began"),
    sa.Column("followed", Text, nullable=False, comment="JSON: the kinds of findings that followed"),
    _index("problem_traces_by_subject", "subject_id"),
    _index("problem_traces_by_time", "problem_id seen_at"),
)

problem_counts = _table(
    "problem_counts",
    "problem_id what value",
    *_required(String, "problem_id"),
    sa.Column("what", String, nullable=False, comment="session, version, hour, cause or followed"),
    sa.Column("value", String, nullable=False, comment="hours since the Unix epoch have ten digits"),
    *_required(sa.Integer, "traces"),
    _index("problem_counts_by_value", "what value"),
)

# What people merged and split. It outlives the occurrences that it is about.
problem_moves = _table(
    "problem_moves",
    "problem_id",
    *_required(String, "problem_id"),
    sa.Column("into_id", String, comment="the problem that it is merged into; null: it is split"),
    sa.Column("key", Text, nullable=False, comment="JSON: the key of that problem; its own where it is split"),
    *_optional(String, "agent service"),
    *_required(sa.BigInteger, "moved_at"),
    *_optional(String, "moved_by"),
    sa.Column("split_from", String, comment="the problem that was split, where this one is a text of it"),
    _index("problem_moves_by_target", "into_id"),
)

# The sums over the traces of agents, so that a chart over months reads no trace. A session has a row for each hour in
# which its traces began. The traces of a session are alike, and intervals have to know that.
agent_hours = _table(
    "agent_hours",
    "agent service hour name version session_id",
    *_required(String, "agent"),
    sa.Column("service", String, nullable=False, comment="empty: not named"),
    sa.Column("hour", sa.Integer, nullable=False, comment="since the Unix epoch"),
    sa.Column("name", String, nullable=False, comment="of the evaluator; empty: of all traces, whatever was judged"),
    sa.Column("version", String, nullable=False, comment="empty: not named"),
    *_required(String, "session_id"),
    *_required(sa.Integer, "traces", ADD),
    sa.Column(
        "hits", sa.Integer, nullable=False, info=ADD, comment="that pass; of all traces: that have an error finding"
    ),
    sa.Column("usd", sa.Float, nullable=False, info=ADD, comment="as far as it is known"),
    sa.Column("priced", sa.Integer, nullable=False, info=ADD, comment="traces whose price is known"),
    sqlite_with_rowid=False,
)

agent_times = _table(
    "agent_times",
    "agent service version hour step",
    *_required(String, "agent"),
    sa.Column("service", String, nullable=False, comment="empty: not named"),
    sa.Column("version", String, nullable=False, comment="empty: not named"),
    sa.Column("hour", sa.Integer, nullable=False, comment="since the Unix epoch"),
    sa.Column("step", sa.Integer, nullable=False, comment="of the time in turns, on a logarithmic scale"),
    *_required(sa.Integer, "traces", ADD),
    sqlite_with_rowid=False,
)

alarms = _table(
    "alarms",
    "alarm_id",
    *_required(String, "alarm_id kind severity state"),
    *_optional(String, "environment service agent owner problem_id"),
    sa.Column("what", String, nullable=False, comment="a tool, a problem's id or a version; empty where there is one"),
    *_required(sa.BigInteger, "since"),
    *_optional(sa.BigInteger, "until"),
    *_required(Text, "title evidence"),
    sa.Column("notice", String, nullable=False, info=KEEP, comment="the state that a notification gave; empty: none"),
    _index("alarms_by_time", "since alarm_id"),
    _index("alarms_firing", "alarm_id", sa.text("state = 'firing'")),
)

# A table of its own, so that a trace that is deleted is no example any more.
alarm_examples = _table(
    "alarm_examples",
    "alarm_id trace_id",
    *_required(String, "alarm_id trace_id"),
    *_required(sa.BigInteger, "seen_at"),
    _index("alarm_examples_by_trace", "trace_id"),
)

# What alarms have learnt of an agent. An empty name was not given.
alarm_watches = _table(
    "alarm_watches",
    "environment service agent",
    *_required(String, "environment service agent"),
    sa.Column("learnt", Text, nullable=False, comment="JSON: sums over its past, evidence"),
    *_required(sa.BigInteger, "seen_at"),
)

alarm_progress = _table(
    "alarm_progress",
    "",
    sa.Column("scored_at", sa.BigInteger, nullable=False, comment="traces scored until then were looked at"),
    sa.Column("digested_at", sa.BigInteger, info=KEEP, comment="when the last digest was due"),
)
