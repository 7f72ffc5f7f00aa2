"""What traces add to their runs

Revision: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_traces",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("trace_id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("condition", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("agent", sa.String(), nullable=True),
        sa.Column("service_version", sa.String(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=True, comment="as its spans say"),
        sa.Column("facts", sa.Text(), nullable=False, comment="JSON: what else the trace adds to its run"),
        sa.PrimaryKeyConstraint("tenant", "trace_id"),
    )
    with op.batch_alter_table("run_traces", schema=None) as batch_op:
        batch_op.create_index(
            "run_traces_by_run", ["tenant", "task_id", "run_id", "condition", "started_at"], unique=False
        )
        batch_op.create_index(
            "run_traces_by_version", ["tenant", "agent", "service_version", "started_at"], unique=False
        )
