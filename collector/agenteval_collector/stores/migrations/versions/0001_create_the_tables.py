"""Create the tables

Until 0.1.0 is released there is one migration, and it follows `schema.py`: nobody has a database to keep.
"""

from agenteval_collector.stores.schema import metadata
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
