"""The tables. A change here needs a migration in `migrations/versions`; a test compares the two."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

metadata = MetaData()

traces = Table(
    "traces",
    metadata,
    Column("tenant", String, nullable=False),
    Column("trace_id", String, nullable=False),
    Column("session_id", String, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("document", Text, nullable=False, comment="JSON: the trace without status and outcomes"),
    Column("offsets", Text, nullable=False, comment="JSON: the requests of the log it was read from"),
    Column("risk", Float, comment="step risk of agent_reliability; null where no signal has weight"),
    Column("task_id", String),
    Column("run_id", String),
    Column("condition", String),
    Column("scored_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "trace_id"),
    Index("traces_by_session", "tenant", "session_id", "started_at"),
    Index("traces_by_run", "tenant", "task_id", "run_id", "condition"),
)

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
    # A later revision supersedes the row; the same revision twice is one row.
    PrimaryKeyConstraint("tenant", "subject", "subject_id", "name", "method", "version"),
    Index("outcomes_by_session", "tenant", "session_id", "subject"),
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
    Column("last_seen_at", BigInteger, nullable=False, comment="when its newest trace was scored"),
    Column("trace_count", Integer, nullable=False),
    Column("finalized_at", BigInteger, comment="when its scores entered the histogram, once and for all"),
    Column("ended_at", BigInteger, comment="when it was reported ended"),
    PrimaryKeyConstraint("tenant", "session_id"),
    Index("sessions_by_last_seen", "tenant", "last_seen_at", "session_id"),
)

runs = Table(
    "runs",
    metadata,
    Column("tenant", String, nullable=False),
    Column("task_id", String, nullable=False),
    Column("run_id", String, nullable=False),
    Column("condition", String, nullable=False),
    Column("success", Boolean),
    Column("confidence", Float),
    Column("session_id", String),
    Column("reported_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "task_id", "run_id", "condition"),
)

progress = Table(
    "progress",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("checkpoint", BigInteger, nullable=False, comment="offset of the log below which all is scored"),
)
