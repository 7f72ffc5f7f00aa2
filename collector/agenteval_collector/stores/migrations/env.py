"""Run by alembic, on the connection that `migration.migrate` hands over."""

from agenteval_collector.stores.schema import metadata
from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
