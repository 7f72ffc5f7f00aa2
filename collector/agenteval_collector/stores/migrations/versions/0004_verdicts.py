"""Loops that agents were found in

Revision: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "verdicts",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("trace_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False, comment="of loop"),
        sa.Column("span_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False, comment="the evaluator"),
        sa.Column("mode", sa.String(), nullable=False, comment="observe or alarm"),
        sa.Column("session_id", sa.String(), nullable=False, comment="as far as it was known when the loop was found"),
        sa.Column("agent", sa.String(), nullable=True),
        sa.Column("service", sa.String(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False, comment="JSON"),
        sa.Column("found_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "trace_id", "kind", "span_id"),
    )
