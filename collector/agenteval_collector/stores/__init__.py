"""Rows and SQL: keep traces, sessions and runs in a database, SQLite or PostgreSQL.

In: commits, reports and labels. Out: what the pipeline needs to go on, and snapshots for queries from outside.
"""

from agenteval_collector.stores.migration import newest_revision
from agenteval_collector.stores.session_turns import SessionTurns
from agenteval_collector.stores.store import Store

__all__ = ["SessionTurns", "Store", "newest_revision"]
