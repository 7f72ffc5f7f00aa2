"""Agents that died in the middle of a trace, and the processes that take part in it

Revision: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("traces", sa.Column("died", sa.Text(), comment="that its agent died in the middle, in a sentence"))
    op.add_column(
        "traces",
        sa.Column(
            "processes", sa.Text(), nullable=False, server_default="[]", comment="JSON: those that it has spans of"
        ),
    )
    op.create_index(
        "traces_died", "traces", ["tenant", "session_id", "started_at"], sqlite_where=sa.text("died IS NOT NULL")
    )
