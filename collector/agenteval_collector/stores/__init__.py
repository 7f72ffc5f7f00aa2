"""Rows and SQL: everything that is known of traces, sessions and runs, kept in one SQLite file.

In: commits, reports and labels. Out: what the pipeline needs to go on, and snapshots for queries from outside.
"""

from agenteval_collector.stores.session_turns import SessionTurns
from agenteval_collector.stores.store import TENANT, Store

__all__ = ["TENANT", "SessionTurns", "Store"]
