"""Verdicts whose events have not left

Revision: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Every event until now was told, and may have left.
    op.add_column("verdicts", sa.Column("exported", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.create_index("verdicts_unexported", "verdicts", ["tenant", "found_at"], sqlite_where=sa.text("exported = 0"))
