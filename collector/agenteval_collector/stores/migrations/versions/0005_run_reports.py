"""Reports of runs by agent, version and time

Revision: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_reports",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("condition", sa.String(), nullable=False),
        sa.Column("agent", sa.String(), nullable=False, comment="empty: not said"),
        sa.Column("service_version", sa.String(), nullable=False, comment="empty: not said"),
        sa.Column("reported_at", sa.BigInteger(), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=True),
        sa.Column("confidence", sa.Float(), nullable=True),
        sa.Column("session_id", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "task_id", "run_id", "condition", "agent", "service_version", "reported_at"),
    )
    with op.batch_alter_table("run_reports", schema=None) as batch_op:
        batch_op.create_index("run_reports_by_time", ["tenant", "reported_at"], unique=False)
    op.execute(
        "INSERT INTO run_reports SELECT tenant, task_id, run_id, condition, '', '', reported_at, success, confidence,"
        " session_id FROM runs"
    )
    op.drop_table("runs")
