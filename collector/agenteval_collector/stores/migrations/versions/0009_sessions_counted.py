"""Scores of sessions are marked as counted when they are, not when they are found

Revision: 0009
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Those of the others were counted when their sessions were over.
    op.execute(
        "UPDATE outcomes SET counted = 0 WHERE subject = 'session' AND (tenant, subject_id) IN "
        "(SELECT tenant, session_id FROM sessions WHERE finalized_at IS NULL)"
    )
