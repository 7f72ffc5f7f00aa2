"""Verdicts that count later than they are found

Revision: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("verdicts", sa.Column("counted", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.create_index("verdicts_uncounted", "verdicts", ["tenant", "found_at"], sqlite_where=sa.text("counted = 0"))
