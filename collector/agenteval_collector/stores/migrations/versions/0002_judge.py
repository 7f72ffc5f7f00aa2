"""What the judge costs, what it was asked and answered, and what people say of the same traces

Revision: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "judge_ledger",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("hour", sa.BigInteger(), nullable=False, comment="hours since the Unix epoch"),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("usd", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "hour", "model"),
    )
    op.create_table(
        "judge_exchanges",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("trace_id", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False, comment="0, 1, ... in the order of asking"),
        sa.Column("question", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("instructions", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False, comment="UTF-8, compressed by zlib"),
        sa.Column("reply", sa.Text(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("usd", sa.Float(), nullable=True),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.Column("cached", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "trace_id", "revision", "position"),
    )
    with op.batch_alter_table("judge_exchanges", schema=None) as batch_op:
        batch_op.create_index("judge_exchanges_by_age", ["tenant", "asked_at"], unique=False)
    op.create_table(
        "labels",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("trace_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("labelled_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "trace_id", "name", "author"),
    )
    # Every outcome that was stored until now was counted when it was.
    op.add_column("outcomes", sa.Column("counted", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.create_index(
        "outcomes_pending", "outcomes", ["tenant", "subject", "subject_id"], sqlite_where=sa.text("status = 'pending'")
    )
