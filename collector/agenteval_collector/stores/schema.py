"""The tables. A change here needs a migration in `migrations/versions`; a test compares the two."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    FromClause,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    bindparam,
    text,
    true,
)

metadata = MetaData()

JUDGED_FAILURE = text("success = 0 AND method = 'llm' AND subject = 'trace'")
"""A judge's score of a trace below its threshold, as the index has it: SQLite matches constants only."""


def own(table: FromClause) -> ColumnElement[bool]:
    """Make the condition that a row belongs to the tenant of the connection (`access.TenantConnection`)."""
    return table.c.tenant == bindparam("own")


def facts(table: Table) -> list[Column[Any]]:
    """The columns of a table but the tenant."""
    return [column for column in table.columns if column.name != "tenant"]


traces = Table(
    "traces",
    metadata,
    Column("tenant", String, nullable=False),
    Column("trace_id", String, nullable=False),
    Column("session_id", String, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("continues_turn", Boolean, nullable=False, comment="whether its turn began in the trace before it"),
    Column("turn_goes_on", Boolean, nullable=False, comment="whether its last turn goes on in a later trace"),
    Column("revision", Integer, nullable=False),
    Column("revised", Text, nullable=False, comment="JSON: fields in which its revision differs from its view"),
    Column("offsets", Text, nullable=False, comment="JSON: the requests of the log it was read from"),
    Column("task_id", String),
    Column("run_id", String),
    Column("condition", String),
    Column("scored_at", BigInteger, nullable=False),
    Column("died", Text, comment="that its agent died in the middle, in a sentence"),
    Column("processes", Text, nullable=False, server_default="[]", comment="JSON: those that it has spans of"),
    Column("said", Text, nullable=False, server_default="", comment="what was said in it, casefolded, to be searched"),
    Column("effort", Text, nullable=False, server_default="{}", comment="JSON: steps, tokens, seconds, usd"),
    PrimaryKeyConstraint("tenant", "trace_id"),
    Index("traces_by_session", "tenant", "session_id", "started_at"),
    Index("traces_by_run", "tenant", "task_id", "run_id", "condition"),
    Index("traces_died", "tenant", "session_id", "started_at", sqlite_where=text("died IS NOT NULL")),
)

# Apart, because SQLite writes a row whole: a revision that says the same changes nothing here.
trace_views = Table(
    "trace_views",
    metadata,
    Column("tenant", String, nullable=False),
    Column("trace_id", String, nullable=False),
    Column("view", Text, nullable=False, comment="JSON: the trace without outcomes and findings"),
    PrimaryKeyConstraint("tenant", "trace_id"),
)

OF_TRACE = (trace_views.c.tenant == traces.c.tenant) & (trace_views.c.trace_id == traces.c.trace_id)
"""A trace with its view."""

outcomes = Table(
    "outcomes",
    metadata,
    Column("tenant", String, nullable=False),
    Column("subject", String, nullable=False, comment="trace or session"),
    Column("subject_id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("method", String, nullable=False),
    Column("version", String, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("session_id", String, nullable=False),
    Column("trace_id", String),
    Column("span_id", String),
    Column("agent", String),
    Column("service", String),
    Column("service_version", String),
    Column("status", String, nullable=False),
    Column("score", Float),
    Column("threshold", Float),
    Column("success", Boolean),
    Column("reason", Text, nullable=False),
    Column("error_type", String),
    Column("coverage", Float),
    Column("metadata", Text, nullable=False, comment="JSON"),
    Column("model", String),
    Column("evaluated_at", BigInteger, nullable=False),
    Column(
        "counted",
        Boolean,
        nullable=False,
        server_default=true(),
        comment="whether instruments have counted it: not while it is first pending, or of a session that goes on",
    ),
    # A later revision supersedes the row; the same revision twice is one row.
    PrimaryKeyConstraint("tenant", "subject", "subject_id", "name", "method", "version"),
    Index("outcomes_by_session", "tenant", "session_id", "name", "score"),
    Index("outcomes_below", "tenant", "session_id", "subject_id", sqlite_where=JUDGED_FAILURE),
    Index("outcomes_pending", "tenant", "subject", "subject_id", sqlite_where=text("status = 'pending'")),
)

sessions = Table(
    "sessions",
    metadata,
    Column("tenant", String, nullable=False),
    Column("session_id", String, nullable=False),
    Column("user_id", String),
    Column("agent", String),
    Column("services", Text, nullable=False, comment="JSON: names, in order of appearance"),
    Column("started_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False, comment="when its newest telemetry was received"),
    Column("trace_count", Integer, nullable=False),
    Column("effort", Text, nullable=False, server_default="{}", comment="JSON: what its traces took together"),
    Column("blind", Boolean, nullable=False, server_default=true(), comment="nothing of it could be looked at"),
    Column("finalized_at", BigInteger, comment="when it was over for the first time"),
    Column("ended_at", BigInteger, comment="when it was reported ended"),
    Column("versions", Text, nullable=False, server_default="[]", comment="JSON, in order of appearance"),
    Column("errors", Integer, nullable=False, server_default="0", comment="findings of that severity"),
    Column("warnings", Integer, nullable=False, server_default="0"),
    Column("infos", Integer, nullable=False, server_default="0"),
    Column("attention", Integer, nullable=False, server_default="0", comment="how soon it should be looked at"),
    PrimaryKeyConstraint("tenant", "session_id"),
    Index("sessions_by_last_seen", "tenant", "last_seen_at", "session_id"),
    Index("sessions_by_end", "tenant", "finalized_at"),
    Index("sessions_by_attention", "tenant", "attention", "last_seen_at", "session_id"),
)

run_reports = Table(
    "run_reports",
    metadata,
    Column("tenant", String, nullable=False),
    Column("task_id", String, nullable=False),
    Column("run_id", String, nullable=False),
    Column("condition", String, nullable=False),
    Column("agent", String, nullable=False, comment="empty: not said"),
    Column("service_version", String, nullable=False, comment="empty: not said"),
    Column("reported_at", BigInteger, nullable=False),
    Column("success", Boolean),
    Column("confidence", Float),
    Column("session_id", String),
    PrimaryKeyConstraint("tenant", "task_id", "run_id", "condition", "agent", "service_version", "reported_at"),
    Index("run_reports_by_time", "tenant", "reported_at"),
)

run_traces = Table(
    "run_traces",
    metadata,
    Column("tenant", String, nullable=False),
    Column("trace_id", String, nullable=False),
    Column("task_id", String, nullable=False),
    Column("run_id", String, nullable=False),
    Column("condition", String, nullable=False),
    Column("session_id", String, nullable=False),
    Column("agent", String),
    Column("service_version", String),
    Column("started_at", BigInteger, nullable=False),
    Column("success", Boolean, comment="as its spans say"),
    Column("facts", Text, nullable=False, comment="JSON: what else the trace adds to its run"),
    PrimaryKeyConstraint("tenant", "trace_id"),
    Index("run_traces_by_run", "tenant", "task_id", "run_id", "condition", "started_at"),
    Index("run_traces_by_version", "tenant", "agent", "service_version", "started_at"),
)

sender_habits = Table(
    "sender_habits",
    metadata,
    Column("tenant", String, nullable=False),
    Column("service", String, nullable=False),
    Column("scope", String, nullable=False),
    Column("operation", String, nullable=False),
    Column("what", String, nullable=False, comment="what may come after its spans: a parent, log records"),
    Column("history", String, nullable=False, comment="of its last traces, oldest first: + came, - did not"),
    PrimaryKeyConstraint("tenant", "service", "scope", "operation", "what"),
)

progress = Table(
    "progress",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("checkpoint", BigInteger, nullable=False, comment="offset of the log below which all is scored"),
)

judge_ledger = Table(
    "judge_ledger",
    metadata,
    Column("tenant", String, nullable=False),
    Column("hour", BigInteger, nullable=False, comment="hours since the Unix epoch"),
    Column("model", String, nullable=False),
    Column("requests", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("usd", Float, nullable=False),
    PrimaryKeyConstraint("tenant", "hour", "model"),
)

judge_exchanges = Table(
    "judge_exchanges",
    metadata,
    Column("tenant", String, nullable=False),
    Column("trace_id", String, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("position", Integer, nullable=False, comment="0, 1, ... in the order of asking"),
    Column("question", String, nullable=False),
    Column("version", String, nullable=False),
    Column("model", String, nullable=False),
    Column("asked_at", BigInteger, nullable=False),
    Column("instructions", Text, nullable=False),
    Column("data", LargeBinary, nullable=False, comment="UTF-8, compressed by zlib"),
    Column("reply", Text),
    Column("problem", Text),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("usd", Float),
    Column("seconds", Float),
    Column("cached", Boolean, nullable=False),
    PrimaryKeyConstraint("tenant", "trace_id", "revision", "position"),
    Index("judge_exchanges_by_age", "tenant", "asked_at"),
)

labels = Table(
    "labels",
    metadata,
    Column("tenant", String, nullable=False),
    Column("trace_id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("author", String, nullable=False, comment="who says so"),
    Column("value", Float, nullable=False),
    Column("note", Text),
    Column("labelled_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "trace_id", "name", "author"),
)

conversations = Table(
    "conversations",
    metadata,
    Column("tenant", String, nullable=False),
    Column("trace_id", String, nullable=False, comment="of a trace that messages may join to others"),
    Column("session_id", String, nullable=False),
    Column("service", String, nullable=False, comment="empty: not named"),
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Column("named", String, comment="the session's id that it names itself"),
    Column("follows", LargeBinary, comment="digest of what it goes on from, one of the next three of another trace"),
    Column("said", LargeBinary, comment="digest of all that was said up to its last reply"),
    Column("reply", LargeBinary, comment="digest of that reply's id"),
    Column("calls", LargeBinary, comment="digest of the ids of the calls that it asks for"),
    Column("answered", Boolean, nullable=False, comment="whether the model replied"),
    Column("parent", String, comment="the trace that it goes on from"),
    Column("kept_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "trace_id"),
    Index(
        "conversations_by_follows",
        "tenant",
        "service",
        "follows",
        "started_at",
        sqlite_where=text("follows IS NOT NULL"),
    ),
    Index("conversations_by_said", "tenant", "service", "said", "started_at", sqlite_where=text("said IS NOT NULL")),
    Index("conversations_by_reply", "tenant", "service", "reply", "started_at", sqlite_where=text("reply IS NOT NULL")),
    Index("conversations_by_calls", "tenant", "service", "calls", "started_at", sqlite_where=text("calls IS NOT NULL")),
    Index("conversations_by_session", "tenant", "session_id", sqlite_where=text("follows = reply")),
    Index("conversations_by_age", "tenant", "service", "kept_at"),
)

findings = Table(
    "findings",
    metadata,
    Column("tenant", String, nullable=False),
    Column("trace_id", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("span_id", String, nullable=False, comment="empty where no span shows it"),
    Column("nth", Integer, nullable=False, comment="0, 1, ... among those of one kind on one span"),
    Column("session_id", String, nullable=False, comment="as far as it is known; else the trace's id"),
    Column("turn", Integer, comment="from 0"),
    Column("severity", String, nullable=False, comment="error, warning or info"),
    Column("mode", String, comment="observe or alarm: it was told live; else null"),
    Column("agent", String),
    Column("tool", String),
    Column("service", String),
    Column("service_version", String),
    Column("reason", Text, nullable=False),
    Column("metadata", Text, nullable=False, comment="JSON"),
    Column("found_at", BigInteger, nullable=False),
    Column("counted", Boolean, nullable=False, comment="whether instruments and events have told of it"),
    Column("exported", Boolean, nullable=False, comment="whether its event has left, or it has none"),
    PrimaryKeyConstraint("tenant", "trace_id", "kind", "span_id", "nth"),
    Index("findings_by_session", "tenant", "session_id", "severity", "kind"),
    Index("findings_told", "tenant", "found_at", sqlite_where=text("mode IS NOT NULL")),
    Index("findings_uncounted", "tenant", "found_at", sqlite_where=text("counted = 0")),
    Index("findings_unexported", "tenant", "found_at", sqlite_where=text("exported = 0")),
)
