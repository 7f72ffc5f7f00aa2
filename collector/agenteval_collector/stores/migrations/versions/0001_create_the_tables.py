"""Create the tables

Revision: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "outcomes",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False, comment="trace or session"),
        sa.Column("subject_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("method", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("trace_id", sa.String(), nullable=True),
        sa.Column("span_id", sa.String(), nullable=True),
        sa.Column("agent", sa.String(), nullable=True),
        sa.Column("service", sa.String(), nullable=True),
        sa.Column("service_version", sa.String(), nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("threshold", sa.Float(), nullable=True),
        sa.Column("success", sa.Boolean(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("error_type", sa.String(), nullable=True),
        sa.Column("coverage", sa.Float(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=False, comment="JSON"),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("evaluated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "subject", "subject_id", "name", "method", "version"),
    )
    with op.batch_alter_table("outcomes", schema=None) as batch_op:
        batch_op.create_index("outcomes_by_session", ["tenant", "session_id", "subject"], unique=False)

    op.create_table(
        "progress",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("checkpoint", sa.BigInteger(), nullable=False, comment="offset of the log below which all is scored"),
        sa.PrimaryKeyConstraint("tenant"),
    )
    op.create_table(
        "runs",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("condition", sa.String(), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=True),
        sa.Column("confidence", sa.Float(), nullable=True),
        sa.Column("session_id", sa.String(), nullable=True),
        sa.Column("reported_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "task_id", "run_id", "condition"),
    )
    op.create_table(
        "sessions",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=True),
        sa.Column("agent", sa.String(), nullable=True),
        sa.Column("services", sa.Text(), nullable=False, comment="JSON: names, in order of appearance"),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False, comment="when its newest trace was scored"),
        sa.Column("trace_count", sa.Integer(), nullable=False),
        sa.Column(
            "finalized_at",
            sa.BigInteger(),
            nullable=True,
            comment="when its scores entered the histogram, once and for all",
        ),
        sa.Column("ended_at", sa.BigInteger(), nullable=True, comment="when it was reported ended"),
        sa.PrimaryKeyConstraint("tenant", "session_id"),
    )
    with op.batch_alter_table("sessions", schema=None) as batch_op:
        batch_op.create_index("sessions_by_last_seen", ["tenant", "last_seen_at", "session_id"], unique=False)

    op.create_table(
        "traces",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("trace_id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False, comment="JSON: the trace without status and outcomes"),
        sa.Column("offsets", sa.Text(), nullable=False, comment="JSON: the requests of the log it was read from"),
        sa.Column(
            "risk", sa.Float(), nullable=True, comment="step risk of agent_reliability; null where no signal has weight"
        ),
        sa.Column("task_id", sa.String(), nullable=True),
        sa.Column("run_id", sa.String(), nullable=True),
        sa.Column("condition", sa.String(), nullable=True),
        sa.Column("scored_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "trace_id"),
    )
    with op.batch_alter_table("traces", schema=None) as batch_op:
        batch_op.create_index("traces_by_run", ["tenant", "task_id", "run_id", "condition"], unique=False)
        batch_op.create_index("traces_by_session", ["tenant", "session_id", "started_at"], unique=False)
